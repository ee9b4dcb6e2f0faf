"""What goes wrong, and when: made from the seed alone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from chaos.lies import Lie


class FaultKind(StrEnum):
    """What is done to a worker; it is undone when the fault's time is over."""

    KILL = "engine killed"
    RESTART = "engine restarted"
    STOP = "engine stopped"
    REMOVE = "worker removed"
    DRAIN = "worker drained"
    LIE = "worker lies"


@dataclass(frozen=True, slots=True)
class Fault:
    """At `at` seconds, for `lasts` seconds. `target` counts the engines, then the liars."""

    at: float
    lasts: float
    kind: FaultKind
    target: int
    lie: Lie = Lie.HONEST

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.lie}" if self.kind is FaultKind.LIE else str(self.kind)


# How often each comes, and the shortest and longest time that it lasts, in seconds.
_ENGINE_FAULTS = {
    FaultKind.KILL: (4, 0.2, 4.0),
    FaultKind.RESTART: (2, 0.0, 2.0),
    FaultKind.STOP: (4, 0.2, 8.0),
    FaultKind.REMOVE: (3, 0.3, 4.0),
    FaultKind.DRAIN: (2, 0.3, 4.0),
}
_PAUSE_S = (0.3, 3.0)
_LIE_S = (0.5, 3.0)


def make_schedule(seed: int, seconds: float, engines: int, liars: int) -> list[Fault]:
    """The faults of a run, by time. Engine 0 is never touched, so that there is always one that serves.

    Each worker has its own sequence, one fault at a time, and all have been undone before the end.
    """
    faults = []
    for target in range(1, engines):
        faults += _of_engine(random.Random(f"engine/{seed}/{target}"), seconds, target)
    for target in range(engines, engines + liars):
        faults += _of_liar(random.Random(f"liar/{seed}/{target}"), seconds, target)
    return sorted(faults, key=lambda fault: (fault.at, fault.target))


def _of_engine(rng: random.Random, seconds: float, target: int) -> list[Fault]:
    kinds = list(_ENGINE_FAULTS)
    weights = [_ENGINE_FAULTS[kind][0] for kind in kinds]
    faults, at = [], rng.uniform(*_PAUSE_S)
    while at < seconds:
        kind = rng.choices(kinds, weights)[0]
        lasts = rng.uniform(*_ENGINE_FAULTS[kind][1:])
        faults.append(Fault(at, lasts, kind, target))
        # Most of the time an engine is well, as in a fleet; a start takes its time, too.
        at += lasts + rng.uniform(*_PAUSE_S) * 3
    return _within(faults, seconds)


def _of_liar(rng: random.Random, seconds: float, target: int) -> list[Fault]:
    lies = [lie for lie in Lie if lie is not Lie.HONEST]
    faults, at = [], rng.uniform(*_PAUSE_S)
    while at < seconds:
        # Each lie once before any comes again.
        for lie in rng.sample(lies, len(lies)):
            lasts = rng.uniform(*_LIE_S)
            faults.append(Fault(at, lasts, FaultKind.LIE, target, lie))
            at += lasts + rng.uniform(*_PAUSE_S)
    return _within(faults, seconds)


def _within(faults: Sequence[Fault], seconds: float) -> list[Fault]:
    return [fault for fault in faults if fault.at + fault.lasts < seconds]
