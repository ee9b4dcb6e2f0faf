"""All arms: made, asked and driven through the real router."""

import random
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.rivals.hand_made import tokens
from warmroute.block import Namespace, Tier
from warmroute.policy import Policy
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Decision, Outcome, Router, RouteRequest, RouterObserver
from warmroute.simulator.arm import Arm
from warmroute.simulator.rivals import ARMS
from warmroute.worker import LoadReport, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

EXPECTED = [
    "warmroute",
    "random",
    "round-robin",
    "least-loaded",
    "longest-prefix",
    "weighted",
    "power-of-two",
    "session-sticky",
    "bounded-load-sticky",
    "prefix-hash",
    "dynamo",
    "llm-d-precise",
    "llm-d-approximate",
    "llm-d-baseline",
    "llm-d-load",
    "llm-d-affinity",
    "sglang-cache-aware",
    "vllm-router-cache-aware",
    "vllm-router-kv-aware",
    "smg-event",
    "production-stack-prefixaware",
    "ray-prefix-affinity",
    "aibrix-prefix-cache",
    "gorgo",
    "preble",
]
WORKERS = 5


def test_every_rival_is_there_and_says_what_it_is_and_whence() -> None:
    assert list(ARMS) == EXPECTED
    for name, arm in ARMS.items():
        assert arm.name == name == arm.make().name
        assert arm.about
        assert "\n" not in arm.about
        assert arm.source


def test_only_ours_holds_requests_back_and_llm_d_scrapes_most_often() -> None:
    assert [arm.name for arm in ARMS.values() if arm.holds_back] == ["warmroute"]
    assert {arm.name for arm in ARMS.values() if arm.scrape_interval_s != 1.0} == {
        name for name in EXPECTED if name.startswith("llm-d")
    }


def test_who_hears_events() -> None:
    assert [arm.name for arm in ARMS.values() if arm.hears_events] == [
        "warmroute",
        "longest-prefix",
        "weighted",
        "dynamo",
        "llm-d-precise",
        "vllm-router-kv-aware",
        "smg-event",
        "preble",
    ]


@pytest.mark.parametrize("arm", [arm for arm in ARMS.values() if arm.knob is not None], ids=lambda arm: arm.name)
def test_a_knob_has_four_to_six_values_with_the_default_among_them(arm: Arm) -> None:
    assert arm.knob is not None
    assert 4 <= len(arm.knob.values) <= 6
    assert sorted(set(arm.knob.values)) == list(arm.knob.values)
    assert arm.knob.default in arm.knob.values
    for value in arm.knob.values:
        assert arm.knob.make(value).name == arm.name


def test_who_has_no_knob() -> None:
    without = [arm.name for arm in ARMS.values() if arm.knob is None]
    assert without == ["warmroute", "random", "round-robin", "least-loaded", "longest-prefix"]


class Driver:
    """A policy in the real router, on five workers that answer at random."""

    def __init__(self, arm: Arm, policy: Policy) -> None:
        observers = [policy] if isinstance(policy, RouterObserver) else []
        self.router = Router(WorkerTable(), PrefixIndex(), policy, observers=observers)
        self.rng = random.Random(3)
        self.now = 0.0
        self.open: list[Decision] = []
        for number in range(WORKERS):
            worker = self.router.add_worker(WorkerSpec(f"http://worker-{number}:1"))
            self.router.learn(worker, WorkerFacts({"m": False}, 16, 2_000))
            self.router.table.set_status(worker, WorkerStatus.READY)
            if arm.hears_events:
                self.router.expect_events(worker.lanes[0], True)

    def send(self, number: int) -> Decision:
        self.now += self.rng.expovariate(4.0)
        prompt = tokens(self.rng.randrange(12), 640) + tokens(100 + self.rng.randrange(40), self.rng.randrange(0, 900))
        session = f"s{number % 7}" if number % 3 else None
        known = prompt if number % 11 else None
        request = RouteRequest(f"r{number}", "m", known, len(prompt), stream=True, session=session)
        tried = {next(iter(self.router.table)).id} if number % 9 == 0 else set[str]()
        verdict = self.router.route(request, self.now, self.rng, tried=tried)  # type: ignore[arg-type]
        assert isinstance(verdict, Decision)
        assert verdict.worker.id not in tried
        self.open.append(verdict)
        self._confirm(verdict)
        return verdict

    def _confirm(self, decision: Decision) -> None:
        """The engine says that it has cached most of the prompt, and what its load is."""
        ids, lane = decision.request.token_ids, decision.lane
        if ids is not None and lane.followed and self.rng.random() < 0.8:
            whole = ids[: len(ids) // 16 * 16]
            names = [hash((lane.key, tuple(whole[: end * 16]))) for end in range(1, len(whole) // 16 + 1)]
            self.router.index.store(lane.key, Tier.DEVICE, None, names, whole, 16, Namespace())
        waiting = self.rng.randrange(3)
        report = LoadReport(decision.worker.requests, self.rng.random(), self.now, waiting=waiting)
        self.router.table.take_report(decision.worker, report, decision.worker.requests)

    def end_some(self) -> None:
        while self.open and self.rng.random() < 0.52:
            self._end(self.open.pop(self.rng.randrange(len(self.open))))

    def end_all(self) -> None:
        while self.open:
            self._end(self.open.pop())

    def _end(self, decision: Decision) -> None:
        self.now += 0.01
        outcomes = (
            Outcome(True, False, self.now + 0.5, self.now, 200, output_tokens=30),
            Outcome(False, True, self.now),
            Outcome(True, False, self.now, status=400),
            Outcome(False, False, self.now, self.now, 200),
        )
        outcome = self.rng.choices(outcomes, (8, 1, 1, 1))[0]
        if outcome.first_byte_at is not None:
            self.router.first_byte(decision, self.now)
        self.router.settle(decision, outcome, self.rng)


def drive(arm: Arm, policy: Policy, requests: int) -> tuple[Driver, list[int]]:
    driver, went = Driver(arm, policy), list[int]()
    for number in range(requests):
        went.append(int(driver.send(number).worker.key))
        driver.end_some()
    return driver, went


@pytest.mark.parametrize("arm", ARMS.values(), ids=lambda arm: arm.name)
def test_two_hundred_requests_through_the_real_router_and_again_the_same(arm: Arm) -> None:
    driver, went = drive(arm, arm.make(), 200)
    assert driver.router.policy_failures == 0
    assert set(went) == set(range(WORKERS))
    assert drive(arm, arm.make(), 200)[1] == went
    driver.end_all()
    driver.router.table.check_integrity()


@pytest.mark.parametrize("arm", [arm for arm in ARMS.values() if arm.knob is not None], ids=lambda arm: arm.name)
def test_every_value_of_a_knob_routes(arm: Arm) -> None:
    assert arm.knob is not None
    for value in arm.knob.values:
        driver, _ = drive(arm, arm.knob.make(value), 25)
        assert driver.router.policy_failures == 0


@cache
def driven(name: str) -> Driver:
    return drive(ARMS[name], ARMS[name].make(), 60)[0]


@pytest.mark.parametrize("name", ARMS)
@settings(max_examples=10, deadline=None)
@given(text=st.integers(0, 12), length=st.integers(1, 1500), seed=st.integers(0, 1000), tried=st.integers(0, WORKERS))
def test_asking_changes_nothing(name: str, text: int, length: int, seed: int, tried: int) -> None:
    driver = driven(name)
    request = RouteRequest("asked", "m", tokens(text, length), length, session="s1")
    left_out = {worker.id for worker in driver.router.table if worker.key == tried}

    def ask() -> Sequence[object]:
        verdict = driver.router.explain(request, driver.now, random.Random(seed), tried=left_out)
        assert isinstance(verdict, Decision)
        return [verdict.position, [(cost.total, dict(cost.terms)) for cost in verdict.costs]]

    first = ask()
    other = RouteRequest("other", "m", tokens(50, 320), 320)
    driver.router.explain(other, driver.now, random.Random(seed + 1))
    assert ask() == first
    assert driver.router.policy_failures == 0


@pytest.mark.parametrize("name", ARMS)
def test_every_cost_is_a_finite_number_with_terms(name: str) -> None:
    driver = driven(name)
    request = RouteRequest("asked", "m", tokens(1, 900), 900)
    verdict = driver.router.explain(request, driver.now, random.Random(0))
    assert isinstance(verdict, Decision)
    assert len(verdict.costs) == WORKERS
    for cost in verdict.costs:
        assert cost.total == cost.total
        assert abs(cost.total) < float("inf")
        assert cost.terms
        assert all(abs(value) < float("inf") for value in cost.terms.values())
    assert verdict.unit
