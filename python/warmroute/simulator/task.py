"""What a process can be asked for: a simulation, or the bounds of a workload. Small values, with small results."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from warmroute.simulator.arms import arm_named
from warmroute.simulator.bounds import Bounds, bounds
from warmroute.simulator.run import simulate
from warmroute.simulator.series import Series, series
from warmroute.simulator.summary import Figures
from warmroute.simulator.workload import Workload
from warmroute.simulator.workloads import scaled, workload
from warmroute.simulator.world import Told

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Task(Protocol[ResultT_co]):
    """Something that a process can do and give back. It can be pickled, and its text names it to people."""

    def perform(self, told: Told) -> ResultT_co:
        """Do it. `told` hears of progress."""


class WorkloadSource(Protocol):
    """How a process comes by a workload: a small value that can be pickled, compared and hashed.

    name: what it is called in progress and errors. speed, duration_s: what `open` has done to its times; None: whole.
    """

    @property
    def name(self) -> str: ...

    @property
    def speed(self) -> float: ...

    @property
    def duration_s(self) -> float | None: ...

    def __hash__(self) -> int: ...

    def open(self) -> Workload:
        """The workload; ConfigError where it cannot be had."""


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """A workload from the list, or from a file in Mooncake's format; `traces` is the folder of recorded traces."""

    name: str
    speed: float = 1.0
    duration_s: float | None = None
    traces: Path | None = None

    def open(self) -> Workload:
        return scaled(workload(self.name, self.traces), self.speed, self.duration_s)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What is kept of a run. counted: the stages that are in the summary.

    failures: why requests failed, in one word, and how many did.
    """

    workers: int
    stages: tuple[Figures, ...]
    counted: tuple[int, ...]
    summary: Figures
    series: Series
    failures: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunTask:
    """One simulation. `policy` is an arm's name, or `package.module:Class`.

    knob: the value of the arm's main setting, None for its default. workers: None for the workload's own number.
    """

    source: WorkloadSource
    policy: str
    seed: int
    knob: float | None = None
    workers: int | None = None

    def __str__(self) -> str:
        knob = "" if self.knob is None else f" at {self.knob:g}"
        return f"{self.policy}{knob} on {self.source.name}, seed {self.seed}"

    def perform(self, told: Told) -> RunResult:
        arm = arm_named(self.policy)
        run = simulate(_opened(self.source), arm, self.seed, workers=self.workers, knob=self.knob, told=told)
        failures = Counter(reason for reason in run.ledger.requests.failed if reason)
        lines = series(run.ledger, run.counted)
        return RunResult(run.workers, run.stages, run.counted, run.summary, lines, dict(sorted(failures.items())))


@dataclass(frozen=True, slots=True)
class BoundsTask:
    """What no policy can do better on a workload, for one seed."""

    source: WorkloadSource
    seed: int
    workers: int | None = None

    def __str__(self) -> str:
        return f"bounds of {self.source.name}, seed {self.seed}"

    def perform(self, told: Told) -> Bounds:
        return bounds(_opened(self.source), self.seed, self.workers)


# A process that has read a long trace keeps it for its next runs.
@lru_cache(maxsize=2)
def _opened(source: WorkloadSource) -> Workload:
    return source.open()
