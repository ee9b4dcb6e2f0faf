"""Tasks in processes: order, progress, errors, and that nobody is left behind."""

import multiprocessing
import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from simulator.made_workloads import Shared
from warmroute.errors import ConfigError
from warmroute.simulator.many import RunFailed, Watcher, run_many
from warmroute.simulator.task import BoundsTask, NamedWorkload, RunTask, Task
from warmroute.simulator.world import Told


@dataclass(frozen=True)
class Reckon:
    """Gives its number back, later the smaller it is."""

    number: int
    wait_s: float = 0.0

    def __str__(self) -> str:
        return f"reckoning {self.number}"

    def perform(self, told: Told) -> tuple[int, int]:
        told("reckoning", self.number, 10)
        time.sleep(self.wait_s)
        if self.number < 0:
            raise ValueError("below zero")
        return self.number, os.getpid()


@dataclass(frozen=True)
class Vanish:
    """Ends its process, as a lack of memory would."""

    def perform(self, told: Told) -> tuple[int, int]:
        os._exit(9)


@dataclass(frozen=True)
class Misconfigured:
    def perform(self, told: Told) -> tuple[int, int]:
        raise ConfigError("no such thing; did you mean another?")


class Heard(Watcher):
    def __init__(self) -> None:
        self.stages: dict[int, tuple[str, int, int]] = {}
        self.order: list[int] = []

    def progress(self, position: int, stage: str, sent: int, total: int) -> None:
        self.stages[position] = (stage, sent, total)

    def ended(self, position: int) -> None:
        self.order.append(position)


def test_results_are_in_the_order_of_the_tasks_and_progress_is_heard() -> None:
    heard = Heard()
    results = run_many([Reckon(0, 0.2), Reckon(1), Reckon(2), Reckon(3)], jobs=2, watcher=heard)
    assert [number for number, _ in results] == [0, 1, 2, 3]
    assert os.getpid() not in [process for _, process in results]
    assert sorted(heard.order) == [0, 1, 2, 3]
    assert {position: stage[1] for position, stage in heard.stages.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
    assert not multiprocessing.active_children()


def test_one_at_a_time_stays_in_this_process() -> None:
    heard = Heard()
    results = run_many([Reckon(1), Reckon(2)], jobs=1, watcher=heard)
    assert results == [(1, os.getpid()), (2, os.getpid())]
    assert heard.order == [0, 1]
    assert run_many([], jobs=2) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_names_its_task_and_ends_the_others(jobs: int) -> None:
    tasks = [Reckon(-1)] + [Reckon(number, 600.0) for number in range(3)]  # longer than a test may take
    with pytest.raises(RunFailed, match="reckoning -1: ValueError: below zero") as failed:
        run_many(tasks, jobs=jobs)
    assert isinstance(failed.value.__cause__, ValueError)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_configuration_stays_one(jobs: int) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        run_many([Misconfigured(), Misconfigured()], jobs=jobs)


def test_a_process_that_vanishes_is_an_error() -> None:
    with pytest.raises(RunFailed, match="memory"):
        run_many([Vanish(), Vanish()], jobs=2)
    assert not multiprocessing.active_children()


def test_an_interrupt_ends_all_processes() -> None:
    class Impatient(Watcher):
        def ended(self, position: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_many([Reckon(0), Reckon(1, 600.0)], jobs=2, watcher=Impatient())
    assert not multiprocessing.active_children()


def test_a_run_is_the_same_wherever_it_is_made() -> None:
    tasks: list[Task[object]] = [RunTask(Shared(), policy, 1) for policy in ("random", "warmroute")]
    tasks.append(BoundsTask(Shared(), 1))
    assert run_many(tasks, jobs=1) == run_many(tasks, jobs=3)


def test_a_task_says_what_it_is() -> None:
    assert str(RunTask(Shared(), "dynamo", 3, knob=0.5)) == "dynamo at 0.5 on shared, seed 3"


def test_a_workload_that_is_not_there_is_an_error_of_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a workload nor a file"):
        run_many([BoundsTask(NamedWorkload(str(tmp_path / "absent.jsonl")), 1)])
