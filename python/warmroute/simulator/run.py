"""One simulation from beginning to end: a workload, an arm, a seed."""

from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.policy import Policy
from warmroute.simulator.arm import Arm
from warmroute.simulator.ledger import Ledger
from warmroute.simulator.summary import Figures, stage_figures, whole_figures
from warmroute.simulator.workload import Stage, Workload
from warmroute.simulator.world import Told, World


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it. `knob` is the value of the arm's main setting, None for its published default.

    counted: the positions of the stages that the summary is made of.
    """

    workload: str
    policy: str
    knob: float | None
    seed: int
    workers: int
    stages: tuple[Figures, ...]
    counted: tuple[int, ...]
    summary: Figures
    ledger: Ledger


def simulate(
    workload: Workload,
    arm: Arm,
    seed: int,
    *,
    workers: int | None = None,
    knob: float | None = None,
    told: Told | None = None,
) -> Run:
    """Put a workload on a fleet of `workers` (the workload's own number by default) that is routed by an arm's policy.

    Equal arguments give equal results. `told` hears of progress.
    """
    policy = arm.make() if knob is None else _turned(arm, knob)
    count = len(workload.fleet.engines) if workers is None else workers
    world = World(arm, policy, workload.fleet, count, seed)
    played: list[_Played] = []
    world.play(_noted(workload, seed, played), told)
    world.check_integrity()
    stages = tuple(stage_figures(world.ledger, number, each.rate) for number, each in enumerate(played))
    counted = tuple(number for number, each in enumerate(played) if each.counted)
    summary = whole_figures(world.ledger, counted, [stages[number] for number in counted])
    return Run(workload.name, arm.name, knob, seed, count, stages, counted, summary, world.ledger)


@dataclass(frozen=True, slots=True)
class _Played:
    rate: float | None
    counted: bool


def _noted(workload: Workload, seed: int, played: list[_Played]) -> Iterator[Stage]:
    """The stages as they are made; of each only that is kept which the figures need."""
    for stage in workload.stages(seed):
        played.append(_Played(stage.rate, stage.counted))
        yield stage


def _turned(arm: Arm, value: float) -> Policy:
    assert arm.knob is not None, f"{arm.name} has no knob"
    return arm.knob.make(value)
