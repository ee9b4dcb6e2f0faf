"""What becomes of requests whose worker is full, dies, or cannot take them."""

import dataclasses
import random
from collections.abc import Sequence

import pytest

from simulator.worlds import PLAIN, ROUND_ROBIN, First, arm, played, single
from warmroute.admission import FailoverOptions, RetryBudget
from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.ledger import NOBODY, NOT_YET, Ledger
from warmroute.simulator.tokens import Joined, Text
from warmroute.simulator.workload import EventPath, FleetPlan, Session, Stage, Turn, WorkerLost
from warmroute.simulator.world import World

# Two at a time: the rest waits, in the engine or in the router.
NARROW = dataclasses.replace(PLAIN, max_num_seqs=2)


def test_a_request_whose_worker_dies_before_the_first_byte_is_answered_by_another() -> None:
    ledger, _ = played(arm(), [single(1.0, prompt=50)], [PLAIN, PLAIN], happenings=[WorkerLost(1.3, 0)])
    requests = ledger.requests
    assert (requests.worker[0], requests.failed[0], requests.sent_at[0]) == (1, "", 1.3)
    assert requests.first_at[0] == pytest.approx(1.3 + 0.1 + 0.5 + 0.01)
    assert requests.output_tokens[0] == 5


def test_one_that_has_begun_is_lost_with_its_worker() -> None:
    ledger, _ = played(arm(), [single(1.0, prompt=50, answer=90)], [PLAIN] * 2, happenings=[WorkerLost(2.0, 0)])
    requests = ledger.requests
    assert (requests.worker[0], requests.failed[0], requests.ended_at[0]) == (0, "worker-died", 2.0)
    assert requests.first_at[0] == pytest.approx(1.61)
    assert requests.output_tokens[0] == 0


def test_a_death_that_nobody_has_noticed_costs_a_try_and_no_time() -> None:
    """The worker was idle; the next look at it would be at 2.0. It is looked at when it has failed the first one."""
    sessions = [single(1.5), single(1.6, seed=1)]
    ledger, world = played(arm(), sessions, [PLAIN, PLAIN], happenings=[WorkerLost(1.2, 0)])
    requests = ledger.requests
    assert list(requests.worker) == [1, 1]
    assert list(requests.sent_at) == [1.5, 1.6]
    assert requests.failed == ["", ""]
    assert world.router._dispatched == 3


@pytest.mark.parametrize("dead", [2, 3, 4])
def test_three_workers_are_tried_at_most(dead: int) -> None:
    happenings = [WorkerLost(1.2, worker) for worker in range(dead)]
    ledger, _ = played(arm(), [single(1.5)], [PLAIN] * 5, happenings=happenings)
    failed = dead >= 3
    assert ledger.requests.failed == ["workers-exhausted" if failed else ""]
    assert ledger.requests.worker[0] == (NOBODY if failed else dead)


def test_second_tries_end_with_their_budget() -> None:
    """All are in work before their first byte when their worker dies: as many go on as the budget has tokens for."""
    sessions = [single(0.001 * number, prompt=200, seed=number) for number in range(200)]
    ledger, _ = played(arm(), sessions, [PLAIN, PLAIN], happenings=[WorkerLost(1.0, 0)])
    options = FailoverOptions()
    budget = RetryBudget(options.retry_share, options.retry_floor_per_s)
    for _ in sessions:
        budget.request()
    granted = sum(budget.take(1.0) for _ in sessions)
    failed = ledger.requests.failed
    assert 0 < granted < 200
    assert failed.count("") == granted
    assert failed.count("workers-exhausted") == 200 - granted
    exhausted = [row for row, reason in enumerate(failed) if reason]
    assert {ledger.requests.ended_at[row] for row in exhausted} == {1.0}
    assert {ledger.requests.worker[row] for row in exhausted} == {NOBODY}
    assert {ledger.requests.first_at[row] for row in exhausted} == {NOT_YET}


def test_what_was_cached_at_a_dead_worker_does_not_count() -> None:
    """The third request would have found its prompt at the first worker, which dies with it in work."""
    sessions = [single(0.0, prompt=160), single(3.0, prompt=160)]
    ledger, _ = played(arm(), sessions, [PLAIN, PLAIN], happenings=[WorkerLost(3.15, 0)])
    assert list(ledger.requests.worker) == [0, 1]
    assert list(ledger.requests.cached) == [0, 0]
    assert list(ledger.requests.predicted) == [0, 0]


def test_second_tries_go_by_what_is_known_when_the_first_one_fails() -> None:
    """Half a second after it came, and died with its worker, the other one has half a second more of its beginning."""
    answer = Text(200, 1_000)
    told = Session(0.0, (Turn(Text(100, 16), answer),))
    same = Session(2.1, (Turn(Joined((Text(100, 16), Text(200, 400))), Text(300, 5)),))
    ledger, _ = played(ROUND_ROBIN, [told, same], [PLAIN, PLAIN], happenings=[WorkerLost(2.6, 1)])
    assert list(ledger.requests.worker) == [0, 0]
    # The first token is there at 0.27, and in the cache an iteration later; each takes 10 ms.
    in_cache = 16 + int((2.6 - EventPath().delay_s - 0.27) / 0.01)
    assert ledger.requests.predicted[1] == in_cache // 16 * 16
    assert ledger.requests.cached[1] == (in_cache + 10) // 16 * 16  # by the end of the request's overhead


class Watching(First):
    """Writes down the load that it is shown."""

    def __init__(self) -> None:
        self.loads: list[tuple[int, int, int]] = []

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        self.loads += [(each.load.requests, each.load.decoding, each.load.queued_tokens) for each in candidates]
        return super().costs(request, candidates, rng)


def test_the_router_hears_when_an_answer_begins() -> None:
    """It does at 0.61: before, a prompt of 50 tokens is to be computed, then a request decodes, then there is none."""
    watching = Watching()
    sessions = [single(0.0, prompt=50, answer=100), *(single(at, 1, 1, seed=7) for at in (0.3, 0.9, 9.0))]
    played(arm(lambda: watching), sessions, [PLAIN])
    assert watching.loads == [(0, 0, 0), (1, 0, 50), (1, 1, 0), (0, 0, 0)]


def test_a_request_that_is_too_long_is_the_clients_own_fault() -> None:
    short = dataclasses.replace(PLAIN, max_model_len=100)
    sessions = [single(1.0, prompt=90, answer=11), single(1.0, prompt=90, answer=10)]
    ledger, world = played(arm(), sessions, [short])
    assert ledger.requests.failed == ["too-long", ""]
    assert (ledger.requests.ended_at[0], ledger.requests.output_tokens[0]) == (1.0, 0)
    assert not world.router.table.set_aside


def flood(holding: bool, requests: int = 60, answer: int = 200) -> Ledger:
    """Far more than an engine that runs two at a time can take; it may have four, two of them in stock."""
    sessions = [single(0.4 * n, answer=answer, seed=n) for n in range(requests)]
    way = arm(First, holds_back=holding)
    world = World(way, First(), FleetPlan((NARROW,)), 1, seed=1)
    world.router.table.reconfigure(slow_start_s=0.0, limits=holding, max_requests=4)
    world.play([Stage("flood", sessions)])
    world.check_integrity()
    return world.ledger


def test_requests_wait_in_the_router_while_the_worker_is_full() -> None:
    ledger = flood(holding=True, requests=20)
    gauges = ledger.gauges
    assert max(gauges.held) > 5
    busy = [at for at, held in enumerate(gauges.held) if held]
    assert {gauges.running[0][at] for at in busy} == {2}
    assert {gauges.waiting[0][at] for at in busy} == {2}  # a place that becomes free is taken in the next step
    assert ledger.requests.failed == [""] * 20


def test_who_waits_gets_its_turn_as_soon_as_there_is_room() -> None:
    """Two are in stock at the engine at any time, so nothing is lost by waiting elsewhere."""
    held, sent_on = flood(holding=True, requests=20), flood(holding=False, requests=20)
    assert max(sent_on.gauges.held) == 0
    assert max(held.requests.ended_at) == pytest.approx(max(sent_on.requests.ended_at), abs=0.05)
    requests = held.requests
    ends = set(requests.ended_at)
    waited = [row for row in range(20) if requests.sent_at[row] > requests.arrived_at[row]]
    assert len(waited) > 5
    by_an_end = [row for row in waited if requests.sent_at[row] in ends]
    assert by_an_end == waited


def test_whoever_waits_too_long_is_turned_away() -> None:
    ledger = flood(holding=True)
    requests = ledger.requests
    late = [row for row in range(60) if requests.failed[row] == "queue-deadline"]
    assert late
    waits = [requests.ended_at[row] - requests.arrived_at[row] for row in late]
    limit_s = FailoverOptions().queue_timeout_s
    assert min(waits) >= limit_s - 1e-9
    assert max(waits) <= limit_s + 0.1 + 1e-9  # it is looked for every tenth of a second
    assert {requests.worker[row] for row in late} == {NOBODY}
    assert {requests.failed[row] for row in range(60)} == {"", "queue-deadline"}


def test_a_full_queue_turns_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "warmroute.simulator.world.FailoverOptions", lambda: FailoverOptions(queue_size=3, queue_timeout_s=600.0)
    )
    ledger = flood(holding=True)
    assert max(ledger.gauges.held) == 3
    assert set(ledger.requests.failed) == {"", "queue-full"}


def test_without_holding_back_nothing_waits_in_the_router() -> None:
    ledger = flood(holding=False, requests=30)
    assert ledger.requests.sent_at == ledger.requests.arrived_at
    assert max(ledger.gauges.waiting[0]) > 10
    assert ledger.requests.failed == [""] * 30


def test_loads_are_given_back_in_every_case() -> None:
    """`played` asserts it at the end of each world; here the table is looked at in the middle of one."""
    sessions = [single(0.2 * n, seed=n) for n in range(30)]
    _, world = played(ROUND_ROBIN, sessions, [PLAIN, PLAIN, PLAIN], happenings=[WorkerLost(2.0, 1, for_s=1.0)])
    assert [worker.requests for worker in world.router.table] == [0, 0, 0]
    assert [worker.queued_tokens for worker in world.router.table] == [0, 0, 0]
