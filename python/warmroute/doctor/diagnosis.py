"""The whole diagnosis, in one pass over the requests and in bounded memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice

from warmroute.doctor.case import Case
from warmroute.doctor.examination import Found
from warmroute.doctor.family import Families
from warmroute.doctor.leaves import Leaf
from warmroute.doctor.options import DoctorOptions
from warmroute.doctor.patient import Patient, StageCount
from warmroute.doctor.prompt_blocks import BoundedCache, Counting, Tally, put_all
from warmroute.doctor.redaction import shown
from warmroute.doctor.report import Finding, Report
from warmroute.openai_api.session import session_of
from warmroute.request_log.bodies import endpoint_in
from warmroute.request_log.logged import Logged
from warmroute.request_log.request import BrokenLine

# Parts of the memory: blocks of the cache of all requests, of that of fixed bodies, requests that are kept, what
# families are known by. The rest is for examinations and the program itself.
_FOR_BLOCKS, _FOR_FIXED, _FOR_KEPT, _FOR_FAMILIES = 0.2, 0.1, 0.12, 0.12
# Families that are followed, and such with findings that are told in the end; a fix holds some hundred lines of text.
_PATIENTS_PER_MB, _FINDINGS_PER_MB = 16, 4
_MOST_REASONS = 32
_LOOKED_AT = 64

Watcher = Callable[[int], None]
"""Hears how many requests have been taken."""


def diagnose(
    requests: Iterable[Logged], options: DoctorOptions | None = None, watcher: Watcher | None = None
) -> Report:
    """What breaks the prefixes of a log's requests, which come in the order of their arrival.

    Never raises for what is in a body: one without a prompt that can be told is counted in `Report.dropped`.
    """
    diagnosis = Diagnosis(options or DoctorOptions())
    for position, logged in enumerate(requests):
        diagnosis.take(position, logged)
        if watcher is not None:
            watcher(position + 1)
    return diagnosis.report()


@dataclass(slots=True)
class Diagnosis:
    """A diagnosis under way."""

    options: DoctorOptions
    _counting: Counting = field(init=False)
    _cache: BoundedCache = field(init=False)
    _fixed_cache: BoundedCache = field(init=False)
    _families: Families = field(init=False)
    _patients: dict[int, Patient] = field(default_factory=dict)
    _keeping: dict[int, Patient] = field(default_factory=dict)
    _counted: Tally = field(default_factory=Tally)
    _kept_bytes: int = 0
    _dropped: dict[str, int] = field(default_factory=dict)
    _diagnosed: list[Patient] = field(default_factory=list)
    _fixed: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        memory = self.options.memory_bytes
        self._counting = Counting(self.options)
        self._cache = BoundedCache(int(memory * _FOR_BLOCKS))
        self._fixed_cache = BoundedCache(int(memory * _FOR_FIXED))
        self._families = Families(int(memory * _FOR_FAMILIES))

    def take(self, position: int, logged: Logged) -> None:
        """One more request."""
        case = Case(
            position=position,
            endpoint=endpoint_in(logged.body, logged.path),
            body=logged.body,
            counting=self._counting,
            at_s=logged.at_s,
            session=logged.session or session_of(logged.body),
            user=logged.user,
        )
        try:
            tokens, cached = put_all(self._cache, case.blocks, self.options.block_tokens)
        except BrokenLine as error:
            self._drop(str(error))
            return
        self._counted.add(tokens, cached)
        number = self._families.of(case.leaves, case.endpoint, logged.application)
        patient = self._patient(number, case.leaves)
        kept_bytes = patient.kept_bytes
        patient.take(case, tokens, cached)
        self._kept_bytes += patient.kept_bytes - kept_bytes
        self._keeping.pop(number, None)
        if patient.kept:
            self._keeping[number] = patient
        self._make_room()

    def _patient(self, number: int, leaves: list[Leaf]) -> Patient:
        """The family, put behind all others: what was met last is let go last."""
        patient = self._patients.pop(number, None) or Patient(_name(leaves), self.options, self._fixed_cache)
        self._patients[number] = patient
        return patient

    def _make_room(self) -> None:
        """While too much is kept, examine the family that has the most of those that were not met for long."""
        most = self.options.memory_bytes * _FOR_KEPT
        while self._kept_bytes > most:
            number = self._to_examine()
            patient = self._keeping.pop(number)
            self._kept_bytes -= patient.kept_bytes
            patient.examine()
        if len(self._patients) > max(1, _PATIENTS_PER_MB * self.options.memory_bytes // 2**20):
            number = next(iter(self._patients))
            self._keeping.pop(number, None)
            self._let_go(self._patients.pop(number))

    def _to_examine(self) -> int:
        """One request alone tells nothing, and there may be very many of these: they go first."""
        oldest = dict(islice(self._keeping.items(), _LOOKED_AT))
        first = next(iter(oldest))
        if len(oldest[first].kept) == 1 and len(self._keeping) > _LOOKED_AT:
            return first
        return max(oldest, key=lambda number: oldest[number].kept_bytes)

    def _let_go(self, patient: Patient) -> None:
        self._kept_bytes -= patient.kept_bytes
        patient.examine()
        if not patient.stages:
            self._fixed.add(patient.counted.tokens, patient.counted.cached)
            return
        self._diagnosed.append(patient)
        if len(self._diagnosed) > max(1, _FINDINGS_PER_MB * self.options.memory_bytes // 2**20):
            least = min(self._diagnosed, key=lambda each: each.counted.computed)
            self._diagnosed.remove(least)
            self._fixed.add(least.counted.tokens, least.counted.cached)
            self._drop("families with findings, the smallest, forgotten to stay within the memory")

    def _drop(self, reason: str) -> None:
        if reason not in self._dropped and len(self._dropped) >= _MOST_REASONS:
            reason = "could not be read for other reasons"
        self._dropped[reason] = self._dropped.get(reason, 0) + 1

    def report(self) -> Report:
        """All that was found; what is still kept is examined first."""
        for patient in self._patients.values():
            self._let_go(patient)
        self._patients.clear()
        self._keeping.clear()
        findings = [finding for patient in self._diagnosed for finding in self._findings(patient)]
        possible = replace(self._fixed)
        for patient in self._diagnosed:
            last = patient.stages[-1].tally
            possible.add(last.tokens + patient.let_go.tokens, last.cached + patient.let_go.cached)
        dropped = dict(self._dropped)
        if self._cache.dropped:
            dropped["blocks forgotten to stay within the memory: reuse may be told too low"] = self._cache.dropped
        if self._families.forgotten:
            dropped["texts forgotten to stay within the memory: families may be told apart"] = self._families.forgotten
        return Report(
            requests=self._counted.requests,
            families=self._families.count,
            prompt_tokens=self._counted.tokens,
            cached_share=self._counted.share,
            possible_share=max(possible.share, self._counted.share),
            block_tokens=self.options.block_tokens,
            bytes_per_token=None if self.options.tokenizer is not None else self.options.bytes_per_token,
            findings=sorted(findings, key=lambda finding: (-finding.tokens_lost, finding.family, finding.field)),
            dropped=dropped,
        )

    def _findings(self, patient: Patient) -> Iterable[Finding]:
        before = patient.counted
        for count in patient.stages:
            after = Tally(
                count.tally.requests + patient.let_go.requests,
                count.tally.tokens + patient.let_go.tokens,
                count.tally.cached + patient.let_go.cached,
            )
            lost = before.computed - after.computed
            # By a few requests it looked like more.
            for found in count.stage.found if lost >= self.options.least_gain * before.tokens else ():
                yield self._told(patient, count, found, before, after, lost // len(count.stage.found))
            before = after

    def _told(
        self, patient: Patient, count: StageCount, found: Found, before: Tally, after: Tally, lost: int
    ) -> Finding:
        options = self.options
        shares = f"share of cached tokens {before.share:.0%} -> {after.share:.0%}"
        together = "" if len(count.stage.found) == 1 else ", together with the family's other findings"
        return Finding(
            kind=found.verdict.kind,
            family=patient.name,
            field=found.field,
            char_offset=found.char_offset,
            token_offset=found.token_offset,
            block=found.token_offset // options.block_tokens,
            left=shown(found.clue.left, options.show_text, options.shown_characters),
            right=shown(found.clue.right, options.show_text, options.shown_characters),
            left_request=found.left,
            right_request=found.right,
            requests=count.better,
            family_requests=patient.counted.requests,
            tokens_lost=lost,
            prefill_s_lost=lost / options.prefill_tokens_per_s,
            share_lost=lost / self._counted.computed if self._counted.computed else 0.0,
            cached_share_before=before.share,
            cached_share_after=after.share,
            suggestion=f"{found.verdict.advice}; {shares}{together}",
            fix=count.stage.chain,
            example=found.example,
        )


def _name(leaves: list[Leaf]) -> str:
    """A name for a family by the first request of it, the same in each diagnosis of the log."""
    digest = blake2b(digest_size=5)
    for leaf in leaves:
        digest.update(repr((leaf.path, leaf.text)).encode("utf-8", "replace"))
    return f"f-{digest.hexdigest()}"
