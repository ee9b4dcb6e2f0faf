"""What is wrong with a family, by a few of its requests: suspects are tried one after the other, the heaviest first.

A fix is believed for what it saves when it is applied, not for how the text looks: what saves too little is no finding.
Where several things break one prefix, none of the fixes saves much alone; they are told together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.chunks import shared_bytes
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds import KINDS
from warmroute.doctor.kinds.short_prefixes import short_prefix
from warmroute.doctor.leaves import Path, field_name, offset_of
from warmroute.doctor.options import DoctorOptions
from warmroute.doctor.prompt_blocks import EndlessCache, Tally, put_all
from warmroute.doctor.report import Fix
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.openai_api import JsonObject
from warmroute.request_log.request import BrokenLine

_MOST_TRIES = 16
# A request that shares less than this with another, beyond what is cached for it, has lost nothing: the part of its
# prompt, and the blocks, by which what is shared and what is cached may differ for their different measures.
_LEAST_LOSS, _LEAST_BLOCKS = 0.02, 1.5
# Without one of several fixes so much of what they save together is kept: then it is not needed.
_ENOUGH = 0.97
_NO_WORSE = 1.02
# A short prefix is of no interest where prompts are long.
_LEAST_SHORT_PREFIX = 0.06
SHORT_BLOCKS = 20
"""Blocks of a prompt: of a longer one no part of a block is a twentieth."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Fixes one after the other."""

    fixes: tuple[Fix, ...]

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with all of them."""
        for fix in self.fixes:
            body = fix.apply(body)
        return body

    def observe(self, body: JsonObject) -> None:
        """Let those that remember see a body, each as those before it leave it."""
        if not any(hasattr(fix, "observe") for fix in self.fixes):
            return
        for fix in self.fixes:
            observe: Callable[[JsonObject], None] | None = getattr(fix, "observe", None)
            if observe is not None:
                observe(body)
            body = fix.apply(body)


@dataclass(frozen=True, slots=True)
class Found:
    """Something that is wrong with a family.

    left, right: positions of two requests that show it, which part after `token_offset` tokens. example: the body of
    the right one as it was sent, if those are kept.
    """

    verdict: Verdict
    clue: Clue
    field: str
    char_offset: int
    token_offset: int
    left: int
    right: int
    example: JsonObject | None


@dataclass(slots=True)
class Stage:
    """Findings that only together save something. chain: their fixes behind those of all stages before."""

    found: list[Found]
    chain: Chain


@dataclass
class Examination:
    """The requests of a family as they are now, and what has been found so far."""

    cases: list[Case]
    options: DoctorOptions
    stages: list[Stage] = field(default_factory=list)

    def run(self) -> list[Stage]:
        """Find all that is worth telling."""
        self._partners = [_partners(self.cases, at) for at in range(len(self.cases))]
        self._refused: set[tuple[Kind, Path]] = set()
        self._pending: list[Found] = []
        self._settled = self._sent = self.cases
        self._tries()
        if not self.stages:
            self._try_short_prefix()
        return self.stages

    def _tries(self) -> None:
        for _ in range(_MOST_TRIES):
            counted = counts(self.cases)
            suspect_and_group = self._heaviest(counted)
            if suspect_and_group is None:
                return
            self._try(*suspect_and_group, counted)

    def _try(self, suspect: Suspect, group: KindGroup, counted: list[Tally]) -> None:
        verdict = group.judge(suspect, self.cases)
        fixed = None if verdict is None else self._readable(verdict)
        before, after = _computed(counted), 0 if fixed is None else _computed(counts(fixed))
        if after >= before or fixed is None:
            # It does not come first again; what is behind it may.
            self._refused.add((suspect.kind, suspect.path))
        # What is moved is written with a line end or two more.
        if verdict is None or fixed is None or after > before * _NO_WORSE:
            return
        self.cases = fixed
        self._pending.append(self._found(suspect, verdict))
        if self._saves_enough(self._settled, fixed):
            self._settle()

    def _readable(self, verdict: Verdict) -> list[Case] | None:
        """The requests with a fix; None where that changes no prompt, or makes one that cannot be read."""
        fixed = [case.with_body(verdict.fix.apply(case.body)) for case in self.cases]
        try:
            changed = any(a.blocks != b.blocks for a, b in zip(fixed, self.cases, strict=True))
        except BrokenLine:
            return None
        return fixed if changed else None

    def _found(self, suspect: Suspect, verdict: Verdict) -> Found:
        """What is told of a suspect: nothing that holds on to the requests, of which a log has many."""
        pair, clue = suspect.first
        sent = {case.position: case.body for case in self._sent} if self.options.keep_examples else {}
        return Found(
            verdict=verdict,
            clue=clue,
            field=field_name(clue.path),
            char_offset=clue.at + offset_of(pair.left.body, clue.path),
            token_offset=pair.left.counting.shared_tokens(pair.left.body, pair.right.body, pair.left.endpoint),
            left=pair.left.position,
            right=pair.right.position,
            example=sent.get(pair.right.position),
        )

    def _settle(self) -> None:
        """Tell what has been tried since the last time, without what is not needed for it."""
        needed = list(self._pending)
        for found in self._pending[:-1]:
            without = [each for each in needed if each is not found]
            if self._saved(without) >= _ENOUGH * self._saved(needed):
                needed = without
        before = self.stages[-1].chain.fixes if self.stages else ()
        chain = Chain((*before, *(found.verdict.fix for found in needed)))
        self.stages.append(Stage(needed, chain))
        self._settled = self.cases = self._fixed(needed)
        self._pending = []

    def _fixed(self, found: Sequence[Found]) -> list[Case]:
        chain = Chain(tuple(each.verdict.fix for each in found))
        return [case.with_body(chain.apply(case.body)) for case in self._settled]

    def _saved(self, found: Sequence[Found]) -> int:
        return _computed(counts(self._settled)) - _computed(counts(self._fixed(found)))

    def _saves_enough(self, before: Sequence[Case], after: Sequence[Case]) -> bool:
        """A hundredth of the family's tokens, or more; and a block for at least one request, or for more."""
        old, new = counts(before), counts(after)
        saved = [a.computed - b.computed for a, b in zip(old, new, strict=True)]
        gain, better = sum(saved), [each for each in saved if each >= self.options.block_tokens]
        tokens = sum(each.tokens for each in old)
        verdicts = [found.verdict for found in self._pending]
        least_gain = max(self.options.least_gain, *(each.least_gain for each in verdicts))
        least_better = max(each.least_better for each in verdicts) * len(saved)
        return gain >= least_gain * tokens and len(better) >= max(1.0, least_better)

    def _heaviest(self, counted: Sequence[Tally]) -> tuple[Suspect, KindGroup] | None:
        suspects: dict[tuple[Kind, Path], tuple[Suspect, KindGroup]] = {}
        for pair, loss in self._losing_pairs(counted):
            for group, clues in ((group, group.detect(pair)) for group in KINDS):
                fresh = [clue for clue in clues if (clue.kind, clue.place) not in self._refused]
                for clue in fresh:
                    at = clue.kind, clue.place
                    suspect, _ = suspects.setdefault(at, (Suspect(clue.kind, clue.place), group))
                    suspect.clues.append((pair, clue))
                    suspect.weight += loss
                if fresh:
                    break
        return max(suspects.values(), key=lambda each: each[0].weight, default=None)

    def _losing_pairs(self, counted: Sequence[Tally]) -> Iterator[tuple[Pair, float]]:
        """Each request that has lost something, beside the one with which it shares the most."""
        for at, partners in enumerate(self._partners):
            case = self.cases[at]
            for partner, share in partners:
                loss = share * case.tokens - counted[at].cached
                if loss >= max(_LEAST_LOSS * case.tokens, _LEAST_BLOCKS * self.options.block_tokens):
                    yield Pair(self.cases[partner], case), loss

    def _try_short_prefix(self) -> None:
        longest = SHORT_BLOCKS * self.options.block_tokens * len(self.cases)
        found = short_prefix(self.cases) if sum(case.tokens for case in self.cases) <= longest else None
        if found is None:
            return
        suspect, verdict = found
        fixed = self._readable(verdict) or self.cases
        before, after = Tally(), Tally()
        for old, new in zip(counts(self.cases), counts(fixed), strict=True):
            before.add(old.tokens, old.cached)
            after.add(new.tokens, new.cached)
        no_block = before.cached == 0 and after.cached > 0
        if before.computed - after.computed >= (0.0 if no_block else _LEAST_SHORT_PREFIX) * before.tokens:
            self.stages.append(Stage([self._found(suspect, verdict)], Chain((verdict.fix,))))


def counts(cases: Sequence[Case]) -> list[Tally]:
    """Of each request, in one cache without end that is empty at first."""
    cache, counted = EndlessCache(), list[Tally]()
    for case in cases:
        tally = Tally()
        tally.add(*put_all(cache, case.blocks, case.counting.block_tokens))
        counted.append(tally)
    return counted


def _computed(counted: Sequence[Tally]) -> int:
    return sum(each.computed for each in counted)


def _partners(cases: Sequence[Case], at: int) -> list[tuple[int, float]]:
    """The earlier request with which a request shares the most, the latest of several, and the part that is shared."""
    total = sum(cases[at].pieces.values())
    if not total:
        return []
    shares = [(shared_bytes(cases[at].pieces, cases[other].pieces) / total, other) for other in range(at)]
    return [(other, share) for share, other in [max(shares, default=(0.0, -1))] if other >= 0]
