"""Another speed or a shorter duration of any workload."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from warmroute.errors import ConfigError
from warmroute.simulator.workload import FleetPlan, Happening, Stage, Workload


@dataclass(frozen=True, slots=True)
class _Scaled:
    of: Workload
    speed: float
    duration_s: float | None

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def about(self) -> str:
        return self.of.about

    @property
    def fleet(self) -> FleetPlan:
        happenings = [self._sooner(happening) for happening in self.of.fleet.happenings]
        return replace(self.of.fleet, happenings=happenings)

    def stages(self, seed: int) -> Iterator[Stage]:
        for stage in self.of.stages(seed):
            yield self._scaled(stage)

    def _scaled(self, stage: Stage) -> Stage:
        faster = (replace(session, start_s=session.start_s / self.speed) for session in stage.sessions)
        sessions = [session for session in faster if self.duration_s is None or session.start_s <= self.duration_s]
        return replace(stage, sessions=sessions, rate=stage.rate and stage.rate * self.speed)

    def _sooner(self, happening: Happening) -> Happening:
        return replace(happening, at_s=happening.at_s / self.speed)


def scaled(workload: Workload, speed: float = 1.0, duration_s: float | None = None) -> Workload:
    """The workload with its sessions begun `speed` times as fast, and only those of the first `duration_s` of a stage.

    What happens to the fleet comes as much earlier. Pauses within sessions stay, as they are people's and tools', and
    so does the time that a worker is gone. ConfigError unless both are above 0.
    """
    if speed <= 0:
        raise ConfigError(f"speed must be above 0, not {speed}")
    if duration_s is not None and duration_s <= 0:
        raise ConfigError(f"duration must be above 0 seconds, not {duration_s}")
    return workload if speed == 1.0 and duration_s is None else _Scaled(workload, speed, duration_s)
