"""One step of the engine, an iteration or several alike: what goes in, how long it takes, what comes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

from warmroute.block import Tier
from warmroute.engine_model.growth import Growth
from warmroute.engine_model.kv_change import KvChange
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import LiveRequest
from warmroute.engine_model.step_time import Chunk, step_s


class Admission(NamedTuple):
    """A request was scheduled for the first time; `cached_tokens` of its prompt were found in the prefix cache.

    They count those that were loaded from a slower tier as well: how many, `Step.loaded` tells.
    """

    request_id: str
    cached_tokens: int


class Output(NamedTuple):
    """A request got `new_tokens`, one in each iteration, and now has `generated`: its whole answer where `finished`."""

    request_id: str
    new_tokens: int
    generated: int
    finished: bool

    @property
    def is_first(self) -> bool:
        return self.generated == self.new_tokens


@dataclass(slots=True)
class Batch:
    """The requests that the scheduler put into a step, in the order of its choice.

    `chunks`: what it computes of prompts, in the same order; whoever is scheduled without one decodes a token.
    `loaded`: of the admitted ones' cached tokens those that came from slower tiers, where any did.
    """

    scheduled: list[LiveRequest] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    admitted: list[Admission] = field(default_factory=list)
    loaded: dict[str, Mapping[Tier, int]] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)

    @property
    def prefill_tokens(self) -> int:
        return sum(chunk.tokens for chunk in self.chunks)

    def duration_s(self, options: EngineOptions) -> float:
        """Seconds of the step, of its first iteration where there are several."""
        running, chunks = len(self.scheduled), self.chunks
        context = sum([live.computed for live in self.scheduled])
        context -= sum(chunk.start + chunk.tokens for chunk in chunks)
        return step_s(options, running, running - len(chunks), context, chunks)


@dataclass(slots=True)
class Step:
    """A batch in work; where it only decodes, `iterations` times. Hand it to `EngineModel.complete` at `ends_at`.

    `iteration_s` is the time of the first; each further one takes `slowing_s` more, for the tokens that have come.
    The engine lowers `iterations` when a request comes that is to be admitted before the last of them.
    """

    batch: Batch
    started_at: float
    iteration_s: float
    slowing_s: float = 0.0
    iterations: int = 1
    growth: Growth | None = None

    @property
    def admitted(self) -> list[Admission]:
        return self.batch.admitted

    @property
    def loaded(self) -> Mapping[str, Mapping[Tier, int]]:
        """How many of the cached tokens came from each slower tier, for those admitted of which any did."""
        return self.batch.loaded

    @property
    def preempted(self) -> list[str]:
        """Ids of requests that lost their blocks to make room; they are scheduled anew later."""
        return self.batch.preempted

    @property
    def duration_s(self) -> float:
        return self._span(self.iterations)

    @property
    def ends_at(self) -> float:
        return self.started_at + self._span(self.iterations)

    def begun(self, at: float) -> int:
        """How many iterations begin before `at`; the first always does."""
        if self.iterations == 1:
            return 1
        ended = self._ended(at)
        begun = ended if self.started_at + self._span(ended) == at else ended + 1
        return min(self.iterations, max(1, begun))

    def completed(self, at: float) -> int:
        """How many iterations have ended by `at`."""
        if at >= self.ends_at:
            return self.iterations
        return 0 if self.iterations == 1 else self._ended(at)

    def _span(self, iterations: int) -> float:
        """Seconds that so many iterations take."""
        return iterations * self.iteration_s + self.slowing_s * (iterations * (iterations - 1) // 2)

    def _ended(self, at: float) -> int:
        """How many iterations have ended by `at` if there are enough of them: the sum's inverse, and no rounding."""
        first, slowing, elapsed = self.iteration_s - self.slowing_s / 2, self.slowing_s, at - self.started_at
        ended = int(2 * elapsed / (first + sqrt(first * first + 2 * slowing * elapsed))) if elapsed > 0 else 0
        while self.started_at + self._span(ended + 1) <= at:
            ended += 1
        while ended and self.started_at + self._span(ended) > at:
            ended -= 1
        return ended


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a completed step brought; `changes` in the order in which they happened."""

    outputs: list[Output]
    changes: list[KvChange]
