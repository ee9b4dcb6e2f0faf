"""Which worker gets a request, and what is booked and released for it."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.fleet import BLOCK_SIZE, MODEL, Fleet, blocks
from warmroute.block import Tier
from warmroute.errors import RefusalReason
from warmroute.policy import POLICIES, Candidate, Cost, PolicyRequest
from warmroute.router import Decision, Outcome, Refusal, RouteRequest
from warmroute.worker import LoadReport, WorkerFacts, WorkerSpec, WorkerStatus


def test_the_founding_example() -> None:
    """A holds 2 of the blocks, C 3 and B 4: the prompt A..D with a new E goes to B."""
    fleet = Fleet("ABC")
    fleet.holds("A", blocks("a", "b"))
    fleet.holds("C", blocks("a", "b", "c"))
    fleet.holds("B", blocks("a", "b", "c", "d"))
    first = fleet.route(fleet.request([*blocks("a", "b", "c", "d", "e"), 1]))
    assert fleet.name_of(first) == "B"
    assert first.cached_tokens == 4 * BLOCK_SIZE
    assert {line.worker: line.overlap.blocks for line in first.considered} == {
        "http://A:1": 2,
        "http://B:1": 4,
        "http://C:1": 3,
    }
    fleet.complete(first)
    fleet.holds("B", blocks("a", "b", "c", "d", "e"))
    second = fleet.route(fleet.request([*blocks("a", "b", "c", "d", "e", "f"), 1]))
    assert fleet.name_of(second) == "B"
    assert second.cached_tokens == 5 * BLOCK_SIZE


def test_an_idle_worker_wins_over_a_full_hit_behind_a_long_queue() -> None:
    fleet = Fleet("AB")
    fleet.holds("B", blocks("a", "b", "c", "d"))
    long_prompt = fleet.request(list(range(100_000, 400_000)))
    fleet.router.table.book(fleet.workers["B"], "queued", long_prompt.prompt_tokens, None)
    decision = fleet.route(fleet.request(blocks("a", "b", "c", "d", "e")))
    assert fleet.name_of(decision) == "A"
    idle, busy = (line.cost.terms for line in decision.considered)
    assert busy["queue_s"] > idle["prefill_s"] > busy["prefill_s"]


def test_without_a_match_the_cheapest_worker_does_the_full_prefill() -> None:
    fleet = Fleet("ABC")
    for name in "AC":
        fleet.router.table.book(fleet.workers[name], "other", 5000, None)
    decision = fleet.route(fleet.request(blocks("x", "y")))
    assert fleet.name_of(decision) == "B"
    assert decision.cached_tokens == 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_explains_each_worker(policy: str) -> None:
    fleet = Fleet("ABC", policy)
    fleet.holds("B", blocks("a", "b"))
    decision = fleet.route(fleet.request(blocks("a", "b", "c")))
    assert [line.worker for line in decision.considered] == ["http://A:1", "http://B:1", "http://C:1"]
    for line in decision.considered:
        assert line.cost.terms
        assert line.cost.total == pytest.approx(sum(line.cost.terms.values()))
    assert decision.chosen.cost.total == min(line.cost.total for line in decision.considered)


def test_asking_for_an_explanation_changes_nothing() -> None:
    fleet = Fleet("AB", "round-robin")
    request = fleet.request(blocks("a", "b"))
    asked = [fleet.router.explain(request, 0.0, random.Random(1)) for _ in range(3)]
    assert all(isinstance(verdict, Decision) and verdict.booking is None for verdict in asked)
    assert fleet.router.index.size() == 0
    assert [worker.requests for worker in fleet.router.table] == [0, 0]
    assert fleet.name_of(fleet.route(request)) == "A"
    assert fleet.name_of(fleet.route(request)) == "B"


def test_twins_that_come_before_the_engines_event_are_not_scattered() -> None:
    fleet = Fleet("ABCDEFGH")
    prompt = list(range(8000))
    homes = {fleet.name_of(fleet.route(fleet.request(prompt), now=0.001 * i)) for i in range(8)}
    assert len(homes) <= 2


def test_a_prediction_ends_when_no_event_confirms_it() -> None:
    fleet = Fleet("AB")
    first = fleet.route(fleet.request(blocks("a", "b", "c")), now=0.0)
    fleet.complete(first)
    later = fleet.route(fleet.request(blocks("a", "b", "c")), now=100.0)
    assert later.cached_tokens == 0


def test_a_worker_without_events_keeps_what_it_was_sent() -> None:
    fleet = Fleet("AB")
    for worker in fleet.workers.values():
        fleet.router.expect_events(worker.lanes[0], False)
    first = fleet.route(fleet.request(blocks("a", "b", "c")), now=0.0)
    fleet.complete(first)
    later = fleet.route(fleet.request(blocks("a", "b", "c", "d")), now=100.0)
    assert later.worker is first.worker
    assert later.cached_tokens == 3 * BLOCK_SIZE


def test_the_last_token_is_always_computed() -> None:
    fleet = Fleet("A")
    fleet.holds("A", blocks("a", "b"))
    assert fleet.route(fleet.request(blocks("a", "b"))).cached_tokens == BLOCK_SIZE
    assert fleet.route(fleet.request([*blocks("a", "b"), 5])).cached_tokens == 2 * BLOCK_SIZE


def test_slower_tiers_cost_less_than_computing_and_more_than_the_gpu() -> None:
    fleet = Fleet("ABC")
    prompt = list(range(100 * BLOCK_SIZE))
    fleet.holds("A", prompt)
    fleet.holds("B", prompt, Tier.HOST)
    decision = fleet.route(fleet.request([*prompt, 1]))
    prefill = [line.cost.terms["prefill_s"] for line in decision.considered]
    assert prefill[0] < prefill[1] < prefill[2]


def test_an_adapter_has_prefixes_of_its_own() -> None:
    fleet = Fleet("AB", adapters=["ad"])
    fleet.holds("A", blocks("a", "b", "c"))
    fleet.holds("B", blocks("a", "b", "c"), adapter="ad")
    prompt = [*blocks("a", "b", "c"), 1]
    assert fleet.name_of(fleet.route(fleet.request(prompt, model="ad"))) == "B"
    assert fleet.name_of(fleet.route(fleet.request(prompt, model=MODEL))) == "A"


def test_first_requests_do_not_all_go_to_the_first_worker() -> None:
    fleet = Fleet("ABCD")
    homes: Counter[str] = Counter()
    for i in range(200):
        decision = fleet.route(fleet.request([7_000_000 + i] * BLOCK_SIZE), now=float(i))
        homes[fleet.name_of(decision)] += 1
        fleet.complete(decision, now=float(i))
    assert min(homes.values()) >= 25, homes


def test_unrelated_prompts_in_one_burst_are_spread_evenly() -> None:
    fleet = Fleet("ABCD")
    for i in range(32):
        fleet.route(fleet.request(list(range(i * 10_000, i * 10_000 + 160))), now=0.0003 * i)
    counts = [worker.requests for worker in fleet.router.table]
    assert max(counts) - min(counts) <= 1


def test_a_load_that_others_put_on_a_worker_counts() -> None:
    fleet = Fleet("AB", "least-loaded")
    table = fleet.router.table
    table.take_report(fleet.workers["A"], LoadReport(9, 0.5, at=10.0), own_requests=0)
    assert fleet.name_of(fleet.route(fleet.request(None), now=11.0)) == "B"
    assert fleet.workers["A"].load(11.0).requests == 9
    assert fleet.workers["A"].load(16.0).requests == 0, "an old report is left out"


class TestWorkersThatFail:
    def failing(self, fleet: Fleet, name: str, now: float, status: int = 503) -> None:
        """One request that this worker answers with an error."""
        others = [other for other in fleet.workers if other != name]
        decision = fleet.route(fleet.request(None), now, tried=others)
        fleet.router.settle(decision, Outcome(True, False, now, status=status))

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_worker_that_fails_at_once_does_not_draw_the_traffic(self, status: int) -> None:
        fleet = Fleet("AB")
        answered = Counter[str]()
        open_requests: list[tuple[float, Decision]] = []
        for i in range(60):
            now = 0.02 * i
            while open_requests and open_requests[0][0] <= now:
                fleet.complete(open_requests.pop(0)[1], now)
            decision = fleet.route(fleet.request(list(range(1000 * i, 1000 * i + 160))), now)
            answered[fleet.name_of(decision)] += 1
            if fleet.name_of(decision) == "A":
                fleet.router.settle(decision, Outcome(True, False, now, status=status))
            else:
                open_requests.append((now + 0.1, decision))
        assert answered["A"] <= 4, answered

    def test_it_is_tried_again_after_a_while_and_trusted_after_a_success(self) -> None:
        fleet = Fleet("AB")
        self.failing(fleet, "A", 0.0)
        assert {fleet.name_of(fleet.route(fleet.request(None), 0.5)) for _ in range(20)} == {"B"}
        assert fleet.name_of(fleet.route(fleet.request(None), 1.0)) == "A"
        self.failing(fleet, "A", 1.0)
        assert fleet.workers["A"].circuit.busy_until == 3.0, "twice as long"
        self.failing(fleet, "A", 1.5)
        assert fleet.workers["A"].circuit.busy_until == 3.0, "what was under way counts once"
        decision = fleet.route(fleet.request(None), 4.0, tried=["B"])
        fleet.router.settle(decision, Outcome(True, False, 4.0, status=200))
        self.failing(fleet, "A", 5.0)
        assert fleet.workers["A"].circuit.busy_until == 6.0, "from the beginning again"

    def test_where_all_fail_none_is_closed(self) -> None:
        fleet = Fleet("AB")
        for name in "AB":
            self.failing(fleet, name, 0.0)
        assert isinstance(fleet.route(fleet.request(None), 0.1), Decision)

    def test_bad_requests_and_clients_that_leave_are_not_held_against_a_worker(self) -> None:
        fleet = Fleet("A")
        for _ in range(10):
            self.failing(fleet, "A", 0.0, status=400)
        decision = fleet.route(fleet.request(None))
        fleet.router.settle(decision, Outcome(False, False, 0.0))
        assert fleet.workers["A"].circuit.at_rest(0.0)


class TestRefusals:
    def test_no_worker(self) -> None:
        fleet = Fleet("")
        assert fleet.refuse(fleet.request(None)) == Refusal(RefusalReason.NO_WORKER_READY, "no worker is registered")

    def test_a_worker_that_is_down_is_named_with_its_reason(self) -> None:
        fleet = Fleet("A")
        fleet.router.table.set_status(fleet.workers["A"], WorkerStatus.DOWN, "connection refused")
        refusal = fleet.refuse(fleet.request(None))
        assert refusal.reason is RefusalReason.NO_WORKER_READY
        assert f"{fleet.workers['A'].name} is down (connection refused)" in refusal.detail

    def test_an_unknown_model_is_told_from_one_whose_workers_are_down(self) -> None:
        fleet = Fleet("AB")
        refusal = fleet.refuse(fleet.request(None, model="nobody-has-this"))
        assert refusal.reason is RefusalReason.UNKNOWN_MODEL
        assert "served: m" in refusal.detail

    def test_of_many_workers_that_are_down_three_are_named(self) -> None:
        fleet = Fleet("ABCDE")
        for worker in fleet.workers.values():
            fleet.router.table.set_status(worker, WorkerStatus.DOWN, "connection refused")
        told = f"{fleet.workers['C'].name} is down (connection refused); and 2 more"
        assert fleet.refuse(fleet.request(None)).detail.endswith(told)

    def test_a_model_whose_worker_is_down_is_not_blamed_on_others(self) -> None:
        fleet = Fleet("AB")
        b = fleet.workers["B"]
        fleet.router.table.learn(b, WorkerFacts({"b-only": False}))
        fleet.router.table.set_status(b, WorkerStatus.DOWN, "gone")
        refusal = fleet.refuse(fleet.request(None, model="b-only"))
        assert refusal.reason is RefusalReason.NO_WORKER_READY
        assert refusal.detail == "no worker that serves model 'b-only' is ready: " + f"{b.name} is down (gone)"

    def test_while_a_worker_has_not_been_asked_no_model_is_unknown(self) -> None:
        fleet = Fleet("A")
        fleet.router.table.add(WorkerSpec("http://new:1"))
        assert fleet.refuse(fleet.request(None, model="other")).reason is RefusalReason.NO_WORKER_READY

    def test_all_tried(self) -> None:
        fleet = Fleet("AB")
        assert fleet.name_of(fleet.route(fleet.request(None), tried=["A"])) == "B"
        assert fleet.refuse(fleet.request(None), tried=["A", "B"]).reason is RefusalReason.WORKERS_EXHAUSTED


class _Faulty:
    name = "faulty"
    unit = "none"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        raise ZeroDivisionError("a fault in a policy")


def test_a_fault_in_the_policy_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet("AB")
    fleet.router.policy = _Faulty()
    fleet.router.table.book(fleet.workers["A"], "other", 0, None)
    for _ in range(3):
        fleet.complete(fleet.route(fleet.request(None)))
    assert fleet.name_of(fleet.route(fleet.request(None))) == "B"
    assert fleet.router.policy_failures == 4
    assert caplog.text.count("policy faulty failed") == 1, "it is logged once"


def test_a_removed_worker_is_forgotten_and_its_request_still_settles() -> None:
    fleet = Fleet("AB")
    fleet.holds("A", blocks("a", "b"))
    decision = fleet.route(fleet.request([*blocks("a", "b"), 1]))
    fleet.router.forget(fleet.workers["A"])
    fleet.complete(decision)
    fleet.workers["A"] = fleet.add("A")
    assert fleet.route(fleet.request([*blocks("a", "b"), 1])).cached_tokens == 0


def test_nothing_is_learned_of_a_worker_that_was_removed_while_it_answered() -> None:
    """Nobody would forget it again: with every pod that comes and goes there would be one more."""
    fleet = Fleet("AB")
    decision = fleet.route(fleet.request([*blocks("a", "b"), 1]))
    gone = decision.worker
    fleet.router.forget(gone)
    unlike = 40.0  # seconds, hundreds of times what is assumed
    fleet.router.first_byte(decision, unlike)
    fleet.router.settle(decision, Outcome(True, False, 2 * unlike, unlike, 200, 9, output_tokens=50))
    calibration = fleet.router.calibration
    assert not calibration._prefill.fits
    assert not calibration._decode.middles


class _Odd:
    """Gives back what it was made with, whatever it is asked."""

    name, unit = "odd", "none"

    def __init__(self, totals: Sequence[float]) -> None:
        self._totals = totals

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [Cost(total, {}) for total in self._totals]


@pytest.mark.parametrize("totals", [[], [1.0], [1.0, 2.0, 3.0], [float("nan"), 1.0], [float("nan")] * 2])
def test_a_policy_that_answers_nonsense_is_one_that_failed(totals: list[float]) -> None:
    fleet = Fleet("AB")
    fleet.router.policy = _Odd(totals)
    fleet.router.table.book(fleet.workers["A"], "other", 0, None)
    assert fleet.name_of(fleet.route(fleet.request(None))) == "B"
    assert fleet.router.policy_failures == 1


@given(st.lists(st.tuples(st.sampled_from(["route", "first", "fail", "done"]), st.integers(0, 9)), max_size=60))
def test_load_is_released_exactly_once_on_every_path(steps: list[tuple[str, int]]) -> None:
    fleet = Fleet("ABC")
    waiting: list[Decision] = []
    now = 0.0
    for action, pick in steps:
        now += 0.05
        if action == "route" or not waiting:
            waiting.append(fleet.route(fleet.request(blocks("a", str(pick)), stream=pick % 2 == 0), now))
        elif action == "first":
            fleet.router.first_byte(waiting[pick % len(waiting)], now)
        else:
            outcome = Outcome(action == "done", action == "fail", now, output_tokens=pick)
            fleet.router.settle(waiting.pop(pick % len(waiting)), outcome)
        fleet.router.table.check_integrity()
    for decision in waiting:
        fleet.router.settle(decision, Outcome(False, False, now))
    assert all(worker.load(now).requests == 0 and worker.queued_tokens == 0 for worker in fleet.router.table)


def test_settling_twice_is_a_fault_of_ours_and_loud() -> None:
    fleet = Fleet("A")
    decision = fleet.route(RouteRequest("r", MODEL, None, 0))
    fleet.complete(decision)
    with pytest.raises(AssertionError, match="settled once"):
        fleet.router.settle(decision, Outcome(True, False, 2.0))


def test_speed_is_learned_from_answers_and_not_from_refusals() -> None:
    fleet = Fleet("A")
    before = fleet.router.calibration.rates(fleet.workers["A"].key)
    for refused in (True, False):
        for i in range(40):
            decision = fleet.route(fleet.request([i] * (100 + 50 * i)), now=10.0 * i)
            work = decision.tokens_ahead + decision.attended_ahead / before.context_tokens
            fleet.router.first_byte(decision, 10.0 * i + work / 1000, refused=refused)
            fleet.complete(decision, 10.0 * i + 9)
        after = fleet.router.calibration.rates(fleet.workers["A"].key)
        assert (after == before) == refused
    assert after.prefill_tokens_per_s == pytest.approx(1000, rel=0.05)


def test_nothing_is_learned_of_speed_while_the_engine_lets_requests_wait() -> None:
    """Times are those of its queue then; learned from, they make it look slow to prefill and quick to decode."""
    fleet = Fleet("A")
    worker, table = fleet.workers["A"], fleet.router.table
    before = fleet.router.calibration.rates(worker.key)
    for waiting in (9, 0):
        for i in range(40):
            now = 10.0 * i
            decision = fleet.route(fleet.request([i] * (100 + 50 * i)), now=now)
            table.take_report(worker, LoadReport(20, 0.9, now + 1, waiting=waiting), own_requests=20)
            fleet.router.first_byte(decision, now + 1 + decision.tokens_ahead / 1000)
            table.take_report(worker, LoadReport(20, 0.9, now + 9, waiting=waiting), own_requests=20)
            fleet.router.settle(decision, Outcome(True, False, now + 9, now + 4, 200, output_tokens=11))
        after = fleet.router.calibration.rates(worker.key)
        assert (after == before) == (waiting > 0)


@pytest.mark.parametrize("outcome", [Outcome(False, True, 0.1), Outcome(True, False, 0.1, 0.1, 429)])
def test_a_prediction_goes_at_once_when_the_worker_never_got_to_the_prompt(outcome: Outcome) -> None:
    fleet = Fleet("A")
    fleet.holds("A", blocks("a"))
    lost = fleet.route(fleet.request(blocks("a", "b", "c", "d")))
    fleet.router.settle(lost, outcome)
    again = fleet.route(fleet.request(blocks("a", "b", "c", "d")), now=0.2)
    assert again.cached_tokens == BLOCK_SIZE, "what was confirmed stays"


def test_what_events_confirmed_in_between_is_not_taken_back() -> None:
    fleet = Fleet("A")
    decision = fleet.route(fleet.request(blocks("a", "b", "c")))
    fleet.holds("A", blocks("a", "b"))
    fleet.router.settle(decision, Outcome(False, True, 0.1))
    assert fleet.route(fleet.request(blocks("a", "b", "c")), now=0.2).cached_tokens == 2 * BLOCK_SIZE


def test_a_worker_that_died_in_the_middle_had_computed_the_prompt() -> None:
    fleet = Fleet("A")
    decision = fleet.route(fleet.request([*blocks("a", "b"), 1]))
    fleet.router.settle(decision, Outcome(False, True, 0.2, first_byte_at=0.1, status=200))
    assert fleet.route(fleet.request([*blocks("a", "b"), 1]), now=2.0).cached_tokens == 2 * BLOCK_SIZE
