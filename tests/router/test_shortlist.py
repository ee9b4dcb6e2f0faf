"""Of a large fleet those are looked at that hold much or have little to do; a policy that takes turns sees all."""

import random

import pytest

from warmroute.block import Namespace, hash_blocks
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Decision, Router, RouteRequest
from warmroute.router.shortlist import MOST_CONSIDERED, shortlist
from warmroute.worker import Booking, Worker, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

FLEET = 200
PROMPT = list(range(640))
HASHES = hash_blocks(PROMPT, 16, Namespace())


def fleet(policy: str = "warmroute", size: int = FLEET) -> Router:
    router = Router(WorkerTable(), PrefixIndex(), POLICIES[policy]())
    for number in range(size):
        worker = router.add_worker(WorkerSpec(f"http://w{number}:1"))
        router.learn(worker, WorkerFacts({"m": False}, 16, 10_000))
        router.table.set_status(worker, WorkerStatus.READY)
        router.expect_events(worker.lanes[0], True)
    return router


def decide(router: Router) -> Decision:
    request = RouteRequest("r", "m", PROMPT, len(PROMPT))
    decision = router.explain(request, 1.0, random.Random(0))
    assert isinstance(decision, Decision)
    return decision


def hold(router: Router, worker: Worker, blocks: int) -> None:
    router.index.predict(worker.lanes[0].key, HASHES.prefix(blocks), 1e6)


def load(router: Router, rng: random.Random, most: int = 9) -> None:
    for worker in router.table:
        for number in range(1 + rng.randrange(most)):
            router.table.book(worker, str(number), 100, None)


def test_who_holds_the_most_is_found_though_it_has_much_to_do() -> None:
    router = fleet()
    workers = list(router.table)
    for worker in workers:
        hold(router, worker, 1)
    load(router, random.Random(1))
    hold(router, workers[77], 39)
    for number in range(10):
        router.table.book(workers[77], f"more {number}", 0, None)
    held = {line.worker: line.overlap.blocks for line in decide(router).considered}
    assert len(held) == MOST_CONSIDERED
    assert held.pop(workers[77].id) == 39
    assert set(held.values()) == {1}, "of those with little to do it is seen that they hold the common beginning"


def test_who_is_idle_is_found_though_it_holds_nothing() -> None:
    router = fleet()
    workers = list(router.table)
    for worker in workers[:150]:
        hold(router, worker, 2)
    load(router, random.Random(2))
    idle = router.add_worker(WorkerSpec("http://idle:1"))
    router.learn(idle, WorkerFacts({"m": False}, 16, 10_000))
    router.table.set_status(idle, WorkerStatus.READY)
    assert decide(router).worker is idle


@pytest.mark.parametrize("policy", ["round-robin", "random"])
def test_a_policy_that_must_see_all_sees_all(policy: str) -> None:
    assert len(decide(fleet(policy)).considered) == FLEET


def test_a_small_fleet_is_looked_at_whole() -> None:
    assert len(decide(fleet(size=MOST_CONSIDERED)).considered) == MOST_CONSIDERED


@pytest.mark.parametrize("seed", range(20))
def test_the_lightest_are_those_with_the_fewest_requests_through_bookings_releases_and_removals(seed: int) -> None:
    rng = random.Random(seed)
    router = fleet(size=60)
    table = router.table
    open_bookings: list[Booking] = []
    for number in range(600):
        workers = list(table)
        if open_bookings and rng.random() < 0.45:
            table.release(open_bookings.pop(rng.randrange(len(open_bookings))), 0.0)
        elif rng.random() < 0.02:
            router.forget(rng.choice(workers))
        else:
            open_bookings.append(table.book(rng.choice(workers), str(number), 1, None))
    table.check_integrity()
    among = {worker for worker in table if rng.random() < 0.7}
    found = table.lightest(10, among)
    fewest = sorted(worker.requests for worker in among)[:10]
    assert sorted(worker.requests for worker in found) == fewest
    assert among.issuperset(found)
    picked = shortlist(list(table), {16: HASHES}, router.index, table, 1.0)
    assert len(set(picked)) == len(picked) == min(MOST_CONSIDERED, len(table))
