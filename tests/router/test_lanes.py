"""Data-parallel ranks: one worker, several caches. Each is a lane with load and blocks of its own."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.fleet import BLOCK_SIZE, Fleet, blocks
from warmroute.block import Tier
from warmroute.router import Decision, Outcome
from warmroute.worker import LoadReport


def ranked(count: int = 2, names: str = "A", policy: str = "warmroute") -> Fleet:
    fleet = Fleet(names, policy)
    for name in names:
        fleet.set_ranks(name, count)
    return fleet


def test_the_rank_that_holds_the_prefix_is_chosen() -> None:
    fleet = ranked(4)
    fleet.holds("A", blocks("a", "b", "c"), lane=2)
    decision = fleet.route(fleet.request(blocks("a", "b", "c", "d")))
    assert decision.lane.rank == 2
    assert decision.cached_tokens == 3 * BLOCK_SIZE
    assert decision.chosen.overlap.blocks == 3


def test_a_prefix_in_one_rank_is_not_credited_to_another() -> None:
    fleet = ranked(2)
    fleet.holds("A", blocks("a"), lane=0)
    fleet.holds("A", blocks("a", "b"), lane=1)
    busy = fleet.router.table.book(fleet.workers["A"], "other", 100 * BLOCK_SIZE, None, fleet.workers["A"].lanes[1])
    decision = fleet.route(fleet.request(blocks("a", "b", "c")))
    assert (decision.lane.rank, decision.cached_tokens) == (0, BLOCK_SIZE)
    fleet.router.table.release(busy, 0.0)
    assert fleet.route(fleet.request(blocks("a", "b", "c"))).cached_tokens == 2 * BLOCK_SIZE


def test_a_rank_is_left_for_another_when_its_queue_is_longer_than_what_it_saves() -> None:
    for queued, rank in ((2 * BLOCK_SIZE - 1, 1), (2 * BLOCK_SIZE + 1, 0)):
        fleet = ranked(2)
        fleet.holds("A", blocks("a", "b"), lane=1)
        fleet.router.table.book(fleet.workers["A"], "other", queued, None, fleet.workers["A"].lanes[1])
        assert fleet.route(fleet.request(blocks("a", "b", "c"))).lane.rank == rank


def test_equal_ranks_are_filled_by_requests_and_then_by_chance() -> None:
    firsts = Counter[int | None]()
    for seed in range(40):
        fleet = ranked(4)
        fleet.rng.seed(seed)
        order = [fleet.route(fleet.request(None)).lane.rank for _ in range(4)]
        assert sorted(order, key=str) == [0, 1, 2, 3], "each gets one before any gets two"
        firsts[order[0]] += 1
    assert len(firsts) == 4


def test_a_rank_that_the_client_names_is_taken() -> None:
    fleet = ranked(3)
    fleet.holds("A", blocks("a", "b"), lane=1)
    decision = fleet.route(fleet.request(blocks("a", "b", "c"), rank=2))
    assert (decision.lane.rank, decision.cached_tokens) == (2, 0)
    assert fleet.route(fleet.request(blocks("a", "b", "c"), rank=7)).lane.rank == 1, "nobody has a rank 7"


def test_workers_are_compared_by_their_best_ranks() -> None:
    fleet = ranked(2, "AB")
    fleet.holds("A", blocks("a", "b"), lane=1)
    fleet.holds("B", blocks("a", "b", "c"), lane=0)
    decision = fleet.route(fleet.request(blocks("a", "b", "c", "d")))
    assert fleet.name_of(decision) == "B"
    assert {(line.worker, line.lane.rank, line.cached_tokens) for line in decision.considered} == {
        ("http://A:1", 1, 2 * BLOCK_SIZE),
        ("http://B:1", 0, 3 * BLOCK_SIZE),
    }


def test_more_ranks_bear_more_load() -> None:
    """Two ranks with a request each are less busy than one cache with two."""
    fleet = Fleet("AB", "least-loaded")
    fleet.set_ranks("A", 2)
    homes = Counter(fleet.name_of(fleet.route(fleet.request(None))) for _ in range(30))
    assert homes["A"] == 20


def test_the_load_of_others_is_taken_as_spread_over_the_ranks() -> None:
    fleet = ranked(4)
    worker = fleet.workers["A"]
    fleet.router.table.take_report(worker, LoadReport(8, None, at=0.0), own_requests=0)
    assert [worker.lane_load(lane, 1.0).requests for lane in worker.lanes] == [2, 2, 2, 2]
    assert worker.load(1.0).requests == 8


def test_twins_follow_the_prediction_into_the_same_rank() -> None:
    fleet = ranked(4)
    prompt = list(range(50 * BLOCK_SIZE))
    first = fleet.route(fleet.request(prompt))
    fleet.router.first_byte(first, 0.1)
    second = fleet.route(fleet.request(prompt), now=0.2)
    assert second.lane is first.lane
    assert second.chosen.overlap.predicted == 50


class TestRanksChange:
    def test_ranks_that_stay_keep_their_blocks(self) -> None:
        fleet = ranked(2)
        for lane in (0, 1):
            fleet.holds("A", blocks("a", "b"), lane=lane)
        kept, gone = fleet.workers["A"].lanes
        lanes = fleet.router.set_ranks(fleet.workers["A"], [5, 0])
        assert [lane.rank for lane in lanes] == [5, 0]
        assert lanes[1] is kept
        assert fleet.router.index.blocks(kept.key) == 2
        assert fleet.router.index.workers() == sorted(lane.key for lane in lanes)
        assert gone.key not in {lane.key for lane in lanes}

    def test_a_rank_that_comes_back_starts_with_nothing(self) -> None:
        fleet = ranked(2)
        fleet.holds("A", blocks("a", "b"), lane=1)
        fleet.set_ranks("A", 1)
        fleet.set_ranks("A", 2)
        assert fleet.route(fleet.request(blocks("a", "b", "c"))).cached_tokens == 0

    def test_late_events_of_a_rank_that_is_gone_change_nothing(self) -> None:
        fleet = ranked(2)
        gone = fleet.workers["A"].lanes[1]
        fleet.set_ranks("A", 1)
        assert fleet.router.index.store(gone.key, Tier.DEVICE, None, [1], blocks("a"), BLOCK_SIZE).ignored == 1
        assert fleet.router.index.size() == 0

    def test_requests_of_a_rank_that_is_gone_still_settle(self) -> None:
        fleet = ranked(2)
        decisions = [fleet.route(fleet.request(blocks("a", str(i)))) for i in range(4)]
        fleet.set_ranks("A", 1)
        for decision in decisions:
            fleet.complete(decision)
        assert fleet.workers["A"].requests == 0

    def test_a_removed_worker_leaves_no_lane_behind(self) -> None:
        fleet = ranked(3, "AB")
        fleet.router.forget(fleet.workers["A"])
        assert fleet.router.index.workers() == sorted(lane.key for lane in fleet.workers["B"].lanes)

    def test_no_rank_and_a_rank_twice_are_faults_of_ours(self) -> None:
        fleet = ranked(2)
        for ranks in ((), (1, 1)):
            with pytest.raises(AssertionError, match=r"lane|twice"):
                fleet.router.set_ranks(fleet.workers["A"], ranks)


@given(st.lists(st.tuples(st.sampled_from(["route", "first", "fail", "done", "ranks"]), st.integers(0, 9))))
def test_load_is_released_exactly_once_on_every_lane(steps: list[tuple[str, int]]) -> None:
    fleet = ranked(3, "AB")
    waiting: list[Decision] = []
    now = 0.0
    for action, pick in steps:
        now += 0.05
        if action == "ranks":
            fleet.set_ranks("AB"[pick % 2], 1 + pick % 4)
        elif action == "route" or not waiting:
            waiting.append(fleet.route(fleet.request(blocks("a", str(pick)), stream=pick % 2 == 0, rank=pick), now))
        elif action == "first":
            fleet.router.first_byte(waiting[pick % len(waiting)], now)
        else:
            outcome = Outcome(action == "done", action == "fail", now, output_tokens=pick)
            fleet.router.settle(waiting.pop(pick % len(waiting)), outcome)
        fleet.router.table.check_integrity()
        fleet.router.index.check_integrity()
    for decision in waiting:
        fleet.router.settle(decision, Outcome(False, False, now))
    lanes = [lane for worker in fleet.router.table for lane in worker.lanes]
    assert all((lane.requests, lane.prefilling, lane.queued_tokens) == (0, 0, 0) for lane in lanes)
