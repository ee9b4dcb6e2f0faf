"""One step of the engine, an iteration or several alike: what goes in, how long it takes, what comes out."""

from dataclasses import dataclass, field
from math import ceil, floor
from typing import NamedTuple

from warmroute.engine_model.growth import Growth
from warmroute.engine_model.kv_change import KvChange
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import LiveRequest


class Admission(NamedTuple):
    """A request was scheduled for the first time; `cached_tokens` of its prompt were found in the prefix cache."""

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
    """The requests that the scheduler put into a step, in the order of its choice."""

    scheduled: list[LiveRequest] = field(default_factory=list)
    prefill_tokens: int = 0
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """A batch in work; where it only decodes, `iterations` times. Hand it to `EngineModel.complete` at `ends_at`.

    The engine lowers `iterations` when a request comes that is to be admitted before the last of them.
    """

    batch: Batch
    started_at: float
    iteration_s: float
    iterations: int = 1
    growth: Growth | None = None

    @property
    def admitted(self) -> list[Admission]:
        return self.batch.admitted

    @property
    def preempted(self) -> list[str]:
        """Ids of requests that lost their blocks to make room; they are scheduled anew later."""
        return self.batch.preempted

    @property
    def duration_s(self) -> float:
        return self.iterations * self.iteration_s

    @property
    def ends_at(self) -> float:
        return self.started_at + self.duration_s

    def begun(self, at: float) -> int:
        """How many iterations begin before `at`; the first always does."""
        if self.iterations == 1:
            return 1
        return min(self.iterations, max(1, ceil((at - self.started_at) / self.iteration_s)))

    def completed(self, at: float) -> int:
        """How many iterations have ended by `at`."""
        if at >= self.ends_at:
            return self.iterations
        return floor((at - self.started_at) / self.iteration_s)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a completed step brought; `changes` in the order in which they happened."""

    outputs: list[Output]
    changes: list[KvChange]


def step_duration(options: EngineOptions, running: int, prefill_tokens: int) -> float:
    """Seconds of a step with `running` requests in it that computes `prefill_tokens` besides one token for each."""
    return options.step_base_s + options.step_per_running_s * running + prefill_tokens / options.prefill_tokens_per_s
