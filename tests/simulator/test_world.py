"""When requests come, in closed loops and stages, and what happens to the fleet meanwhile."""

import random
from collections.abc import Sequence

import pytest

from simulator.worlds import PLAIN, ROUND_ROBIN, First, arm, played, single, talks
from warmroute.policy import POLICIES, Candidate, Cost, PolicyRequest
from warmroute.simulator.ledger import NOBODY
from warmroute.simulator.tokens import Text
from warmroute.simulator.workload import EventPath, FleetPlan, Session, Stage, Turn, WorkerAdded, WorkerLost
from warmroute.simulator.world import PolicyFailed, World


def test_one_request_takes_what_its_engine_takes() -> None:
    ledger, _ = played(arm(), [single(2.0, prompt=50, answer=5)], [PLAIN])
    requests = ledger.requests
    assert requests.arrived_at[0] == requests.sent_at[0] == 2.0
    assert requests.first_at[0] == pytest.approx(2.0 + 0.1 + 0.5 + 0.01)
    assert requests.ended_at[0] == pytest.approx(2.61 + 4 * 0.01)
    assert (requests.prompt_tokens[0], requests.output_tokens[0], requests.worker[0]) == (50, 5, 0)


def test_a_turn_comes_so_long_after_the_one_that_it_follows() -> None:
    """The first is followed by two side by side, one of them by another one."""
    text = [Turn(Text(1, 30), Text(2, 10 * number + 1)) for number in range(4)]
    turns = [
        text[0],
        Turn(text[1].prompt, text[1].answer, after=0, wait_s=0.25),
        Turn(text[2].prompt, text[2].answer, after=0),
        Turn(text[3].prompt, text[3].answer, after=1, wait_s=2.0),
    ]
    ledger, _ = played(arm(), [Session(1.0, turns)], [PLAIN])
    arrived, ended = ledger.requests.arrived_at, ledger.requests.ended_at
    # Rows are in the order of arrival: the one without a pause comes before its brother.
    first, without_pause, paused, last = range(4)
    assert arrived[first] == 1.0
    assert arrived[without_pause] == ended[first]
    assert arrived[paused] == ended[first] + 0.25
    assert arrived[last] == ended[paused] + 2.0
    assert list(ledger.requests.output_tokens) == [1, 21, 11, 31]


def test_turns_without_one_before_start_with_their_session() -> None:
    turns = [Turn(Text(n, 10), Text(n, 3), wait_s=wait_s) for n, wait_s in enumerate([0.0, 0.5])]
    ledger, _ = played(arm(), [Session(3.0, turns)], [PLAIN])
    assert list(ledger.requests.arrived_at) == [3.0, 3.5]


def test_a_stage_starts_when_all_of_the_one_before_have_ended_and_a_pause_is_over() -> None:
    stages = [
        Stage("one", [single(0.5, answer=300), single(1.0)], pause_s=4.0),
        Stage("two", [single(0.25), single(0.0)]),
    ]
    ledger, _ = played(ROUND_ROBIN, stages, [PLAIN, PLAIN])
    requests = ledger.requests
    over = max(requests.ended_at[:2])
    assert list(requests.arrived_at) == [0.5, 1.0, over + 4.0, over + 4.25]
    assert list(requests.stage) == [0, 0, 1, 1]
    assert ledger.stage_names == ["one", "two"]


def test_progress_is_told_of_each_stage_to_its_end() -> None:
    told: list[tuple[str, int, int]] = []
    sessions = [single(0.01 * number) for number in range(250)]
    world = World(arm(), First(), FleetPlan((PLAIN,)), 1, seed=1)
    world.play([Stage("a", sessions), Stage("b", sessions[:3])], lambda *news: told.append(news))
    assert told == [("a", 100, 250), ("a", 200, 250), ("a", 250, 250), ("b", 3, 3)]


def test_a_new_worker_takes_part_from_its_moment_on() -> None:
    sessions = [single(0.1 * number, seed=number) for number in range(100)]
    ledger, world = played(ROUND_ROBIN, sessions, [PLAIN], happenings=[WorkerAdded(5.05, PLAIN)])
    requests = ledger.requests
    assert set(requests.worker[:51]) == {0}
    assert set(requests.worker[51:]) == {0, 1}
    assert len(world.fleet.pods) == 2
    whole, late = ledger.gauges.running
    assert len(whole) == len(ledger.gauges.at)
    assert len(late) == len([at for at in ledger.gauges.at if at >= 5.05])


def test_a_dead_worker_shows_nothing_and_gets_nothing_until_it_is_back() -> None:
    sessions = [single(0.1 * number, answer=400, seed=number) for number in range(100)]
    ledger, _ = played(ROUND_ROBIN, sessions, [PLAIN, PLAIN], happenings=[WorkerLost(3.05, 1, for_s=3.0)])
    requests, gauges = ledger.requests, ledger.gauges
    at_work = {
        at: (running, usage)
        for at, running, usage in zip(gauges.at, gauges.running[1], gauges.kv_usage[1], strict=True)
    }
    assert at_work[3.0][0] > 0
    assert [at_work[float(second)] for second in (4, 5, 6)] == [(0, 0.0)] * 3
    assert at_work[8.0][0] > 0
    dead = [row for row in range(100) if 3.05 < requests.arrived_at[row] < 6.05]
    assert {requests.worker[row] for row in dead} == {0}


@pytest.mark.parametrize("worker", [0, 1])
def test_whoever_is_dead_cannot_die(worker: int) -> None:
    """It is back when the first death says so; a worker that the fleet does not have cannot die either."""
    happenings = [WorkerLost(1.0, worker, 2.0), WorkerLost(2.0, worker, 3.0), WorkerLost(1.5, 17, 1.0)]
    sessions = [single(0.5 * n, prompt=33) for n in range(20)]
    ledger, world = played(ROUND_ROBIN, sessions, [PLAIN] * 2, happenings=happenings)
    assert all(pod.is_alive for pod in world.fleet.pods)
    assert ledger.requests.failed == [""] * 20
    assert ledger.requests.predicted[8:] == ledger.requests.cached[8:]  # nothing of its new cache was forgotten


def test_without_any_worker_requests_are_refused() -> None:
    ledger, _ = played(arm(), [single(5.0), single(9.0)], [PLAIN], happenings=[WorkerLost(2.0, 0, for_s=5.0)])
    requests = ledger.requests
    assert requests.failed == ["no-worker-ready", ""]
    assert requests.ended_at[0] == 5.0
    assert (requests.worker[0], requests.output_tokens[0]) == (NOBODY, 0)


@pytest.mark.parametrize("refused", [5, 3_000])
def test_a_session_whose_turns_are_all_refused_at_once_ends_once(refused: int) -> None:
    """Each refusal sends the next turn at the same moment, however many; the other session goes on to its end."""
    turns = [Turn(Text(n, 10), Text(n, 3), after=n - 1 if n else None) for n in range(refused)]
    sessions = [Session(5.0, turns), single(8.0, answer=100)]
    ledger, _ = played(arm(), sessions, [PLAIN], happenings=[WorkerLost(2.0, 0, for_s=5.0)])
    assert ledger.requests.failed == ["no-worker-ready"] * refused + [""]
    assert set(ledger.requests.ended_at[:refused]) == {5.0}


class Broken:
    name = "broken"
    unit = "nothing"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        raise ZeroDivisionError


def test_a_policy_that_fails_has_no_result() -> None:
    with pytest.raises(PolicyFailed):
        played(arm(Broken), [single(0.0)], [PLAIN])


def test_a_lost_request_does_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmroute.simulator.pod.Pod.submit", lambda pod, flight: None)
    with pytest.raises(AssertionError, match="a request got lost"):
        played(arm(), [single(0.0)], [PLAIN])


def test_hearing_of_caches_changes_nothing_for_a_policy_that_does_not_ask() -> None:
    """What is sampled of an engine does not depend on who listens to it, and neither do the times."""
    ways = [arm(POLICIES["round-robin"], hears_events=heard) for heard in (True, False)]
    heard, deaf = (played(way, talks(4), [PLAIN] * 3, event_path=EventPath(delay_s=0.0))[0] for way in ways)
    assert heard.gauges == deaf.gauges
    assert heard.requests.ended_at == deaf.requests.ended_at
    assert sum(map(sum, heard.gauges.kv_usage)) > 0
