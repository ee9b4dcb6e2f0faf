"""Bounds against figures made by hand."""

import dataclasses

import pytest

from simulator.made_workloads import ENGINE, Made, Shared, turn
from warmroute.simulator.arms import arm_named
from warmroute.simulator.bounds import bounds
from warmroute.simulator.run import simulate
from warmroute.simulator.workload import FleetPlan, Session, Stage, WorkerAdded

# Without attention's share the times can be told in the head.
PLAIN = dataclasses.replace(
    ENGINE,
    prefill_context_tokens=0.0,
    prefill_tokens_per_s=1000.0,
    step_base_s=0.01,
    step_per_running_s=0.001,
    request_overhead_s=0.1,
    max_num_batched_tokens=256,
)


def alone(uncached: int, steps: int) -> float:
    return 0.1 + steps * 0.011 + uncached / 1000


def made(*stages: Stage, engine: object = PLAIN, **plan: object) -> Made:
    return Made(stages, FleetPlan((engine, engine), **plan))  # type: ignore[arg-type]


def stage(*sessions: Session, counted: bool = True) -> Stage:
    return Stage("play", sessions, counted=counted)


def test_first_token_is_overhead_and_the_steps_of_what_nobody_has_seen() -> None:
    # 320 shared tokens are 20 blocks; 64 own ones 4. Cold: 384 tokens in chunks of 256 and 128. Then 64 in one.
    sessions = [Session(float(number), (turn(1, 320, number, 64),)) for number in range(3)]
    found = bounds(made(stage(*sessions)), seed=1)
    assert found.requests == found.sessions == 3
    assert found.prompt_tokens == 3 * 384
    assert found.cached_token_share == pytest.approx(640 / (3 * 384))
    assert found.ttft_mean_s == pytest.approx((alone(384, 2) + 2 * alone(64, 1)) / 3)
    assert found.ttft_p50_s == pytest.approx(alone(64, 1))
    assert found.ttft_p99_s == pytest.approx(alone(64, 1) + 0.98 * (alone(384, 2) - alone(64, 1)))


def test_the_last_token_is_always_computed() -> None:
    # The same prompt of exactly 24 blocks again: its last block is computed anew, as engines do.
    sessions = [Session(float(number), (turn(1, 320, 0, 64),)) for number in range(2)]
    found = bounds(made(stage(*sessions)), seed=1)
    assert found.ttft_p50_s == pytest.approx((alone(384, 2) + alone(16, 1)) / 2)


def test_a_warm_up_is_in_the_cache_but_not_in_the_figures() -> None:
    warm_up = stage(Session(0.0, (turn(1, 320, 0, 64),)), counted=False)
    found = bounds(made(warm_up, stage(Session(0.0, (turn(1, 320, 1, 64),)))), seed=1)
    assert found.requests == found.sessions == 1
    assert found.ttft_mean_s == pytest.approx(alone(64, 1))


def test_turns_come_in_the_order_of_nominal_times() -> None:
    late = Session(5.0, (turn(1, 320, 0, 64),))
    early = Session(0.0, (turn(2, 320, 1, 64), turn(1, 320, 2, 64, after=0, wait_s=1.0)))
    found = bounds(made(stage(late, early)), seed=1)
    # The second turn, at 1 s, computes the text of seed 1; the request at 5 s finds it.
    assert found.ttft_mean_s == pytest.approx((2 * alone(384, 2) + alone(64, 1)) / 3)


def test_the_fastest_worker_that_there_ever_is_counts() -> None:
    fast = dataclasses.replace(PLAIN, request_overhead_s=0.0)
    request = stage(Session(0.0, (turn(1, 320, 0, 64),)))
    joined = bounds(made(request, happenings=(WorkerAdded(1.0, fast),)), seed=1)
    assert joined.ttft_mean_s == pytest.approx(alone(384, 2) - 0.1)
    mixed = Made((request,), FleetPlan((PLAIN, fast)))
    assert bounds(mixed, seed=1).ttft_mean_s == pytest.approx(alone(384, 2) - 0.1)
    assert bounds(mixed, seed=1, workers=1).ttft_mean_s == pytest.approx(alone(384, 2))


def test_nothing_counted_has_no_bounds() -> None:
    found = bounds(made(stage(counted=False)), seed=1)
    assert (found.requests, found.ttft_mean_s, found.cached_token_share) == (0, None, None)


@pytest.mark.parametrize("policy", ["warmroute", "random", "longest-prefix"])
def test_no_run_is_better(policy: str) -> None:
    workload = Shared().open()
    least = bounds(workload, seed=1)
    summary = simulate(workload, arm_named(policy), 1).summary
    assert summary.requests == least.requests
    for figure in ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s"):
        assert getattr(summary, figure) >= getattr(least, figure) - 1e-9
    assert summary.cached_token_share is not None
    assert least.cached_token_share is not None
    assert summary.cached_token_share <= least.cached_token_share + 1e-9


def test_one_request_alone_takes_as_long_as_the_bound() -> None:
    workload = made(stage(Session(0.0, (turn(1, 320, 0, 64),))))
    summary = simulate(workload, arm_named("warmroute"), 1).summary
    assert summary.ttft_mean_s == pytest.approx(bounds(workload, seed=1).ttft_mean_s)
