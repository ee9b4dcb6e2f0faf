"""A family while its requests come: some of them are kept until it is examined; then what the fixes save is counted."""

import json
from dataclasses import dataclass, field

import msgspec

from warmroute.doctor.case import Case
from warmroute.doctor.examination import SHORT_BLOCKS, Examination, Stage
from warmroute.doctor.options import DoctorOptions
from warmroute.doctor.prompt_blocks import BoundedCache, PromptBlocks, Tally, put_all
from warmroute.request_log.request import BrokenLine

# Requests that are kept for an examination, and those of them that had lost something when it begins at the latest.
_MOST_KEPT, _MOST_LOSING = 40, 20
# Of the kept ones, when there are too many that have lost nothing: the first ones, which others go back to, stay.
_FIRST_KEPT = 4
_MOST_EXAMINATIONS = 3
# Of a prompt: where more is cached, what is left is what was asked.
_WELL_CACHED = 0.9
# Pieces of text by which it is seen that a request has lost something.
_MOST_SEEN = 20_000
# Of memory: a piece that was seen, and what a request takes beside its body.
_BYTES_SEEN, _BYTES_EACH = 70, 1_000


@dataclass(slots=True)
class Packed:
    """A request that is kept: its body as JSON, which is the smallest form of it. cached: tokens found for it."""

    case: Case
    body: bytes
    tokens: int
    cached: int
    has_lost: bool

    @classmethod
    def of(cls, case: Case, tokens: int, cached: int, has_lost: bool) -> "Packed":
        """Pack a case."""
        try:
            body = msgspec.json.encode(case.body)
        except UnicodeEncodeError:  # Half of a surrogate pair, which only an escape can tell.
            body = json.dumps(case.body).encode()
        return cls(case.with_body({}), body, tokens, cached, has_lost)

    def unpacked(self) -> Case:
        """The case again."""
        return self.case.with_body(json.loads(self.body) if b"\\ud" in self.body else msgspec.json.decode(self.body))


@dataclass(slots=True)
class StageCount:
    """What a stage's fixes save. better: requests that compute at least a block less than before it."""

    stage: Stage
    tally: Tally = field(default_factory=Tally)
    better: int = 0


@dataclass(slots=True)
class Patient:
    """A family. name: stable. counted: as the requests are, in the cache of all. fixed: cache of all fixed bodies."""

    name: str
    options: DoctorOptions
    fixed: BoundedCache
    counted: Tally = field(default_factory=Tally)
    stages: list[StageCount] = field(default_factory=list)
    kept: list[Packed] = field(default_factory=list)
    examinations: int = 0
    seen: set[int] = field(default_factory=set)
    # Of requests that are gone from `kept` without an examination: they count for the fixes as they were.
    let_go: Tally = field(default_factory=Tally)

    @property
    def kept_bytes(self) -> int:
        """What is kept until the next examination takes in memory."""
        return sum(len(each.body) + _BYTES_EACH for each in self.kept) + _BYTES_SEEN * len(self.seen)

    @property
    def is_watched(self) -> bool:
        """Whether it may still be examined."""
        return not self.stages and self.examinations < _MOST_EXAMINATIONS

    def take(self, case: Case, tokens: int, cached: int) -> None:
        """One more request. Examines the family where enough of its requests have lost something."""
        self.counted.add(tokens, cached)
        if self.stages:
            self._count(case, tokens - cached)
        elif self.is_watched:
            self._keep(case, tokens, cached)
        else:
            self.let_go.add(tokens, cached)

    def _keep(self, case: Case, tokens: int, cached: int) -> None:
        packed = Packed.of(case, tokens, cached, self._has_lost(case, tokens, cached))
        self.kept.append(packed)
        losing = sum(each.has_lost for each in self.kept)
        if losing >= _MOST_LOSING:
            self.examine()
        elif len(self.kept) > _MOST_KEPT:
            self._thin_out()

    def _has_lost(self, case: Case, tokens: int, cached: int) -> bool:
        if cached >= _WELL_CACHED * tokens:
            return False
        pieces = case.pieces
        total = sum(pieces.values())
        known = sum(weight for piece, weight in pieces.items() if piece in self.seen)
        if len(self.seen) > _MOST_SEEN:
            self.seen.clear()
        self.seen.update(pieces)
        return total > 0 and known / total * tokens - cached > self.options.block_tokens

    def _thin_out(self) -> None:
        """Let the older ones go that have lost nothing; those that have need others beside them."""
        keep = len(self.kept) // 2
        recent = self.kept[-keep:]
        older = self.kept[:-keep]
        staying = [each for at, each in enumerate(older) if at < _FIRST_KEPT or each.has_lost]
        for each in older[_FIRST_KEPT:]:
            if not each.has_lost:
                self.let_go.add(each.tokens, each.cached)
        self.kept = staying + recent

    @property
    def _have_lost(self) -> bool:
        return any(each.has_lost for each in self.kept)

    @property
    def _are_short(self) -> bool:
        """Whether a block that is not shared counts among the prompts that are kept."""
        return sum(each.tokens for each in self.kept) <= SHORT_BLOCKS * self.options.block_tokens * len(self.kept)

    def examine(self) -> None:
        """Look for what is wrong by the requests that are kept, and let them go."""
        is_worth_it = len(self.kept) > 1 and (self._have_lost or self._are_short)
        cases = [each.unpacked() for each in self.kept] if is_worth_it else []
        self.examinations += is_worth_it
        if is_worth_it:
            for stage in Examination(cases, self.options).run():
                self.stages.append(StageCount(stage))
        if not self.stages:
            for each in self.kept:
                self.let_go.add(each.tokens, each.cached)
        for case, each in zip(cases, self.kept, strict=True) if self.stages else ():
            self._count(case, each.tokens - each.cached)
        self.kept, self.seen = [], set()

    def _count(self, case: Case, computed: int) -> None:
        """Count a request, of which so many tokens were computed, as each stage's fixes would have it."""
        for number, count in enumerate(self.stages):
            count.stage.chain.observe(case.body)
            # What other stages make of a body is not in the cache of this one.
            blocks = _blocks(case, count.stage, f"stage {number}")
            tokens, cached = put_all(self.fixed, blocks, case.counting.block_tokens)
            count.tally.add(tokens, cached)
            count.better += computed - (tokens - cached) >= self.options.block_tokens
            computed = tokens - cached


def _blocks(case: Case, stage: Stage, apart: str) -> list[PromptBlocks]:
    """Of a request with a stage's fixes; as it is where these make of it what cannot be read."""
    try:
        return case.counting.blocks(stage.chain.apply(case.body), case.endpoint, apart)
    except BrokenLine:
        return case.counting.blocks(case.body, case.endpoint, apart)
