"""A whole simulation: what of it is counted, on how many workers, with which knob."""

import dataclasses
import random
from collections.abc import Sequence

import pytest

from simulator.made_workloads import ENGINE, Made, turn
from simulator.worlds import First, arm
from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.arm import Knob
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.run import simulate
from warmroute.simulator.workload import FleetPlan, Session, Stage, WorkerLost


def stages() -> tuple[Stage, ...]:
    sessions = [Session(0.2 * n, (turn(n % 2, 160, n, 40),)) for n in range(12)]
    return (
        Stage("warm-up", sessions[:2], counted=False),
        Stage("5/s", sessions[2:7], rate=5.0),
        Stage("again", sessions[7:], rate=5.0),
    )


def test_stages_are_told_apart_and_only_those_that_count_are_summed() -> None:
    run = simulate(Made(stages()), ARMS["round-robin"], seed=3)
    assert (run.workload, run.policy, run.knob, run.seed, run.workers) == ("made", "round-robin", None, 3, 2)
    assert [(stage.name, stage.rate, stage.requests) for stage in run.stages] == [
        ("warm-up", None, 2),
        ("5/s", 5.0, 5),
        ("again", 5.0, 5),
    ]
    assert run.counted == (1, 2)
    assert run.summary.requests == 10
    rates = [stage.output_tokens_per_s for stage in run.stages[1:]]
    assert run.summary.output_tokens_per_s == pytest.approx(sum(rate or 0.0 for rate in rates) / 2)
    assert len(run.ledger.requests) == 12


def test_a_fleet_can_be_of_another_size() -> None:
    slow = dataclasses.replace(ENGINE, step_base_s=0.1)
    made = Made(stages(), FleetPlan((ENGINE, slow), happenings=(WorkerLost(0.5, 1, for_s=0.1),)))
    assert simulate(made, ARMS["round-robin"], 0, workers=1).workers == 1
    run = simulate(made, ARMS["round-robin"], 0, workers=5)
    assert set(run.ledger.requests.worker) == {0, 1, 2, 3, 4}
    assert run.summary.load_ratio == 1.0


class Turned(First):
    """Prefers the worker that its knob names."""

    def __init__(self, worker: float) -> None:
        self.worker = worker

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [Cost(float(each.worker.name != f"worker-{self.worker:g}"), {}) for each in candidates]


def test_a_knob_is_turned() -> None:
    turned = arm(lambda: Turned(0.0), knob=Knob("worker", 0.0, (0.0, 1.0), Turned))
    default, other = (simulate(Made(stages()), turned, 0, knob=knob) for knob in (None, 1.0))
    assert (default.knob, other.knob) == (None, 1.0)
    assert set(default.ledger.requests.worker) == {0}
    assert set(other.ledger.requests.worker) == {1}


def test_a_policy_without_a_knob_cannot_be_turned() -> None:
    with pytest.raises(AssertionError, match="no knob"):
        simulate(Made(stages()), ARMS["random"], 0, knob=1.0)
