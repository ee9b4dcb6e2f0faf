"""A workload of one stage: traffic of some shape, and the fleet that it is put on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from warmroute.simulator.workload import FleetPlan, Session, Stage


class Traffic(Protocol):
    """Sessions of one shape. Equal seeds give equal ones; they need not be in order."""

    def sessions(self, seed: int) -> Iterable[Session]: ...


@dataclass(frozen=True, slots=True)
class SingleStage:
    """All of `traffic` in one stage, which is counted from its first request on, with cold caches."""

    name: str
    about: str
    fleet: FleetPlan
    traffic: Traffic

    def stages(self, seed: int) -> Iterator[Stage]:
        yield Stage(self.name, sorted(self.traffic.sessions(seed), key=lambda session: session.start_s))
