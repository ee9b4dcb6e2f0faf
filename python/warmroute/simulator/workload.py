"""What a workload is: requests with their dependences and times, and the fleet that they are meant for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warmroute.engine_model import EngineOptions
from warmroute.simulator.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Turn:
    """One request. The engine computes `prompt` and then gives `answer`, both of one token at least.

    It comes `wait_s` after the end of the turn at position `after` of its session, or, without one, after the
    session's start. Several turns after the same one run side by side. `max_tokens` is the limit that the client
    names, None where it names none.
    """

    prompt: Tokens
    answer: Tokens
    after: int | None = None
    wait_s: float = 0.0
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """Requests of one client, each after what it depends on; a single request is a session of one turn.

    `start_s` counts from the stage's start. `name` is what the client would name as its conversation; None where no
    client would name one.
    """

    start_s: float
    turns: Sequence[Turn]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Sessions, in the order of their starts. The next stage starts `pause_s` after all of this one's have ended.

    `counted`: it belongs to the summary; a warm-up does not. `rate` is the nominal one, in requests per second.
    """

    name: str
    sessions: Sequence[Session]
    counted: bool = True
    rate: float | None = None
    pause_s: float = 1.0


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """At `at_s` from the beginning the engine of one worker dies, with all that it has in work and in its cache.

    After `for_s` a new process answers under the same address, with an empty cache; None: never.
    """

    at_s: float
    worker: int
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerAdded:
    """At `at_s` one more worker, of this kind, joins the fleet."""

    at_s: float
    engine: EngineOptions


Happening = WorkerLost | WorkerAdded


@dataclass(frozen=True, slots=True)
class EventPath:
    """How KV events come to the router: after `delay_s`, and a share of the frames, `loss`, never.

    What is lost is noticed at the next frame, and had from the publisher's buffer after another two delays.
    """

    delay_s: float = 0.002
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The engines of the fleet; where `--workers` says another number they are repeated in turn, or cut off."""

    engines: Sequence[EngineOptions]
    happenings: Sequence[Happening] = ()
    event_path: EventPath = field(default_factory=EventPath)

    def engine(self, position: int) -> EngineOptions:
        """The engine of the worker at this position, for any size of fleet."""
        return self.engines[position % len(self.engines)]


class Workload(Protocol):
    """What is asked of whom. A workload is a value: it does not change."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str:
        """One line that says what it is."""

    @property
    def fleet(self) -> FleetPlan:
        """The fleet that it is meant for."""

    def stages(self, seed: int) -> Iterable[Stage]:
        """The stages, equal for equal seeds; made one after the other, so they need not fit into memory together."""
