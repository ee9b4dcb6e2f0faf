"""A worker that fails is left alone for a while, tried by one request, and taken back when that is answered."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.worker import Circuit, CircuitState, Sign
from worker.naive_circuit import NaiveCircuit

FAILURES = [Sign.FAILURE, Sign.SILENCE]


def opened(at: float = 0.0) -> Circuit:
    circuit = Circuit()
    for _ in range(3):
        circuit.ended(Sign.FAILURE, at, at)
    assert circuit.state(at) is CircuitState.OPEN
    return circuit


def test_three_separate_failures_in_a_row_open() -> None:
    circuit = Circuit()
    for now in (0.0, 1.0):
        circuit.ended(Sign.FAILURE, now, now)
    assert circuit.allows(1.0)
    circuit.ended(Sign.FAILURE, 2.0, 2.0)
    assert not circuit.allows(2.0)
    assert (circuit.state(2.9), circuit.state(3.0)) == (CircuitState.OPEN, CircuitState.HALF_OPEN)


def test_failures_that_were_under_way_together_count_once() -> None:
    circuit = Circuit()
    for _ in range(50):
        circuit.ended(Sign.FAILURE, 0.0, 1.0)
    assert circuit.allows(1.0), "one moment broke fifty connections"


def test_one_failure_among_many_successes_does_not_open() -> None:
    circuit = Circuit()
    for number in range(1000):
        now = float(number)
        circuit.ended(Sign.FAILURE if number % 20 == 0 else Sign.SUCCESS, now, now)
        assert circuit.allows(now)


def test_a_worker_that_fails_half_of_its_requests_is_set_aside() -> None:
    circuit = Circuit()
    for number in range(40):
        circuit.ended(Sign.FAILURE if number % 2 else Sign.SUCCESS, float(number), float(number))
    assert circuit.opened > 0


def test_silence_to_all_that_it_had_opens_at_once() -> None:
    circuit = Circuit()
    circuit.ended(Sign.SILENCE, 0.0, 600.0)
    assert not circuit.allows(600.0)


def test_a_time_out_of_one_while_others_are_answered_does_not() -> None:
    circuit = Circuit()
    circuit.began(500.0, 550.0)
    circuit.ended(Sign.SILENCE, 0.0, 600.0)
    assert circuit.allows(600.0)


def test_rests_double_up_to_half_a_minute_and_begin_anew_after_a_finished_request() -> None:
    circuit, now, rests = opened(), 0.0, []
    for _ in range(7):
        rests.append(circuit.retry_at - now)
        now = circuit.retry_at
        circuit.sent(now)
        circuit.ended(Sign.FAILURE, now, now)
    assert rests == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    now = circuit.retry_at
    circuit.sent(now)
    circuit.ended(Sign.SUCCESS, now, now)
    for _ in range(3):
        circuit.ended(Sign.FAILURE, now, now)
    assert circuit.retry_at - now == 1.0


def test_chance_spreads_rests_by_a_quarter() -> None:
    rng, rests = random.Random(1), []
    for _ in range(200):
        circuit = Circuit()
        for _ in range(3):
            circuit.ended(Sign.FAILURE, 0.0, 0.0, u=rng.random())
        rests.append(circuit.retry_at)
    assert 0.75 <= min(rests) < 0.8
    assert 1.2 < max(rests) <= 1.25


def test_one_try_at_a_time() -> None:
    circuit = opened()
    assert circuit.allows(1.0)
    circuit.sent(1.0)
    assert not circuit.allows(1.5)
    circuit.ended(Sign.NOTHING, 1.0, 1.6)
    assert circuit.allows(1.6), "its client left; that says nothing, and the next one may try"


def test_a_try_that_hangs_does_not_keep_it_half_open_for_ever() -> None:
    circuit = opened()
    circuit.sent(1.0)
    assert not circuit.allows(30.9)
    assert circuit.allows(31.0)


def test_an_answer_that_begins_closes_and_one_failure_before_it_is_finished_opens_again() -> None:
    circuit = opened()
    circuit.sent(1.0)
    circuit.began(1.0, 1.2)
    assert circuit.state(1.2) is CircuitState.CLOSED
    circuit.ended(Sign.FAILURE, 0.5, 1.3)
    assert circuit.allows(1.3), "that was sent before the try"
    circuit.ended(Sign.FAILURE, 1.0, 1.5)
    assert circuit.state(1.5) is CircuitState.OPEN
    assert circuit.retry_at - 1.5 == 2.0, "the second rest in a row"


def test_answers_to_what_was_sent_before_it_opened_do_not_close_it() -> None:
    circuit = opened(at=5.0)
    circuit.began(4.0, 5.5)
    circuit.ended(Sign.SUCCESS, 4.0, 5.5)
    assert circuit.state(5.5) is CircuitState.OPEN


@pytest.mark.parametrize("sign", [Sign.NOTHING, Sign.BUSY])
def test_what_says_nothing_of_health_never_opens(sign: Sign) -> None:
    circuit = Circuit()
    for number in range(100):
        circuit.ended(sign, float(number), float(number))
    assert circuit.state(100.0) is CircuitState.CLOSED


def test_busy_rests_for_as_long_as_it_says() -> None:
    circuit = Circuit()
    circuit.ended(Sign.BUSY, 0.0, 0.0, retry_after_s=5.0)
    assert (circuit.allows(4.9), circuit.allows(5.0)) == (False, True)
    circuit.ended(Sign.BUSY, 5.0, 5.0, retry_after_s=86_400.0)
    assert circuit.allows(35.0), "but not for a day"


def test_busy_without_a_time_doubles_and_what_was_under_way_counts_once() -> None:
    circuit = Circuit()
    for _ in range(10):
        circuit.ended(Sign.BUSY, 0.0, 0.0)
    assert circuit.busy_until == 1.0
    circuit.ended(Sign.BUSY, 1.0, 1.0)
    assert circuit.busy_until == 3.0
    circuit.ended(Sign.SUCCESS, 3.0, 3.0)
    circuit.ended(Sign.BUSY, 4.0, 4.0)
    assert circuit.busy_until == 5.0


@given(st.lists(st.tuples(st.sampled_from(["fail", "silence", "success", "left", "first", "wait"]), st.integers(0, 5))))
def test_it_does_as_the_one_that_remembers_everything(steps: list[tuple[str, int]]) -> None:
    circuit, naive = Circuit(), NaiveCircuit()
    now, under_way = 0.0, list[float]()
    signs = {"fail": Sign.FAILURE, "silence": Sign.SILENCE, "success": Sign.SUCCESS, "left": Sign.NOTHING}
    for step, number in steps:
        now += 0.25 * number
        for each in (circuit, naive):
            each.sent(now)
        under_way.append(now)
        if step == "wait":
            continue
        sent_at = under_way[-1 - number % len(under_way)]
        for each in (circuit, naive):
            if step == "first":
                each.began(sent_at, now)
            else:
                each.ended(signs[step], sent_at, now)
        if step != "first":
            under_way.remove(sent_at)
        assert (circuit.is_open, circuit.allows(now)) == (naive.is_open, naive.allows(now))
        assert not circuit.is_open or circuit.retry_at == naive.retry_at
