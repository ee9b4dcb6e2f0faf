"""What the router is told of the fleet: as much as a prober would tell it, when it would."""

import dataclasses

import pytest

from simulator.worlds import PLAIN, First, arm, played, single
from warmroute.simulator.fleet import MODEL
from warmroute.simulator.workload import FleetPlan, Stage, WorkerLost
from warmroute.simulator.world import World


def test_workers_are_known_by_place_with_their_facts() -> None:
    small = dataclasses.replace(PLAIN, block_size=32, num_blocks=77)
    world = World(arm(), First(), FleetPlan((PLAIN, small)), 3, seed=1)
    workers = list(world.router.table)
    assert [worker.name for worker in workers] == ["worker-0", "worker-1", "worker-2"]
    assert [worker.facts.block_size for worker in workers] == [16, 32, 16]
    assert [worker.capacity_blocks for worker in workers] == [1_000, 77, 1_000]
    assert all(worker.models == {MODEL: False} or MODEL in worker.models for worker in workers)
    assert [world.fleet.of(worker.id).position for worker in workers] == [0, 1, 2]


@pytest.mark.parametrize("heard", [True, False])
def test_events_are_heard_or_caches_are_guessed(heard: bool) -> None:
    world = World(arm(hears_events=heard), First(), FleetPlan((PLAIN,)), 1, seed=1)
    assert [worker.lanes[0].followed for worker in world.router.table] == [heard]


@pytest.mark.parametrize("interval_s", [0.25, 1.0, 5.0])
def test_load_is_as_old_as_the_last_scrape(interval_s: float) -> None:
    world = World(arm(scrape_interval_s=interval_s), First(), FleetPlan((PLAIN,)), 1, seed=1)
    world.play([Stage("made", [single(0.0, answer=700)], pause_s=0.0)])
    (worker,) = world.router.table
    assert worker.report is not None
    last = int(world.now / interval_s) * interval_s
    assert worker.report.at == pytest.approx(last)
    assert worker.report.requests == 1
    assert worker.report.kv_usage == pytest.approx(16 / 16_000, abs=0.05)


def test_a_death_is_noticed_at_the_next_look_where_nobody_asks() -> None:
    world = World(arm(), First(), FleetPlan((PLAIN, PLAIN), happenings=[WorkerLost(2.5, 1)]), 2, seed=1)
    seen: list[tuple[float, str]] = []
    statuses = world._agenda
    for at in (2.4, 2.9, 3.1):
        statuses.at(at, lambda: seen.append((world.now, list(world.router.table)[1].status.value)))
    world.play([Stage("made", [single(0.0), single(5.0, seed=1)])])
    assert seen == [(2.4, "ready"), (2.9, "ready"), (3.1, "down")]


def test_samples_are_a_second_apart_and_belong_to_their_stage() -> None:
    stages = [Stage("one", [single(3.2)], pause_s=2.0), Stage("two", [single(0.5, seed=1)])]
    ledger, _ = played(arm(), stages, [PLAIN])
    gauges = ledger.gauges
    assert list(gauges.at) == [float(second) for second in range(1, len(gauges.at) + 1)]
    second_began = ledger.requests.ended_at[0] + 2.0
    assert list(gauges.stage) == [int(at > second_began) for at in gauges.at]


def test_what_is_sampled_is_what_runs() -> None:
    """Three answers of 5 s at once, on an engine that takes two."""
    narrow = dataclasses.replace(PLAIN, max_num_seqs=2)
    ledger, _ = played(arm(), [single(0.5, answer=500, seed=n) for n in range(3)], [narrow])
    gauges = ledger.gauges
    at = dict(zip(gauges.at, zip(gauges.running[0], gauges.waiting[0], strict=True), strict=True))
    assert at[2.0] == at[5.0] == (2, 1)
    assert at[8.0] == (1, 0)
    assert gauges.kv_usage[0][4] == pytest.approx(2 * (16 + 410) / 16_000, abs=0.003)
