"""gorgo: predicted time to the first token, and how it learns."""

import random
from collections.abc import Callable

import pytest

from simulator.rivals.hand_made import ENDS, answered, asked, candidate, choices, decision, fleet, tokens, totals
from warmroute.router import Decision, Outcome
from warmroute.simulator.rivals.gorgo import GorgoPolicy, LeastSquares


def test_before_it_has_learned_a_token_is_a_token() -> None:
    policy, workers = GorgoPolicy(), fleet(0, 0)
    policy.decided(decision(workers, 1, tokens(1)))
    # Known there: 50 chunks of 16; queued there: 1,600.
    assert totals(policy, asked(tokens(1, 800) + tokens(2, 800)), workers) == [1600.0, 800.0 + 1600.0]
    assert totals(GorgoPolicy(4.0), asked(tokens(1)), workers) == [1600.0, 1600.0]


def test_where_more_run_than_were_sent_queued_tokens_are_scaled_up() -> None:
    policy = GorgoPolicy()
    workers = [candidate(0, running=3), candidate(1, running=3, waiting=5)]
    for request_id in ("a", "b"):
        policy.decided(decision(workers, 1, tokens(2), request_id=request_id))
    # Nothing of its own, 3 running: 3 prompts as long as this one. 2 of its own, 3 running: 3,200 x 3 / 2.
    assert totals(policy, asked(tokens(3)), workers) == [1600 + 3 * 1600.0, 1600 + 4800.0]


@pytest.mark.parametrize("end", ENDS)
def test_queued_tokens_are_released_at_the_end_whatever_it_was(end: Callable[[Decision], Outcome]) -> None:
    policy, workers = GorgoPolicy(), fleet(0, 0)
    sent = decision(workers, 1, tokens(1))
    policy.decided(sent)
    policy.settled(sent, end(sent))
    assert totals(policy, asked(tokens(5)), workers) == [1600.0, 1600.0]
    assert choices(policy, asked(tokens(1)), workers) == {1}


def test_least_squares_finds_the_slopes_whatever_the_constant() -> None:
    fit, rng = LeastSquares(), random.Random(1)
    for number in range(200):
        assert (fit.slopes() is None) == (number < 32)
        x, z = rng.uniform(0, 8000), rng.uniform(0, 100_000)
        fit.add(x, z, 150.0 + 0.06 * x + 0.002 * z)
    assert fit.slopes() == pytest.approx((0.06, 0.002))


def test_slopes_are_never_negative_and_not_made_up() -> None:
    fit, rng = LeastSquares(), random.Random(1)
    for _ in range(50):
        x, z = rng.uniform(0, 8000), rng.uniform(0, 100)
        fit.add(x, z, 0.1 * x - 3.0 * z)
    slopes = fit.slopes()
    assert slopes is not None
    assert slopes == pytest.approx((0.1, 0.0))
    assert slopes[1] == 0.0
    same = LeastSquares()
    for _ in range(50):
        same.add(100.0, 200.0, 5.0)
    assert same.slopes() is None


def test_the_learned_rates_are_used() -> None:
    policy, workers, rng = GorgoPolicy(), fleet(0, 0), random.Random(2)
    for number in range(60):
        sent = decision(workers, number % 2, tokens(100 + number, 16 * rng.randrange(10, 200)))
        policy.decided(sent)
        length = sent.request.prompt_tokens
        policy.settled(sent, answered(sent, first_byte_at=0.1 + 0.00005 * length))
    # Nothing was ever queued when a request was sent, so only the prefill rate can be told: not enough to use either.
    assert totals(policy, asked(tokens(1)), workers) == [1600.0, 1600.0]
    for number in range(60):
        ahead = decision(workers, 0, tokens(500 + number, 16 * rng.randrange(10, 200)), request_id="ahead")
        policy.decided(ahead)
        sent = decision(workers, 0, tokens(900 + number, 16 * rng.randrange(10, 200)))
        policy.decided(sent)
        took = 0.1 + 0.00005 * sent.request.prompt_tokens + 0.00001 * ahead.request.prompt_tokens
        policy.settled(sent, answered(sent, first_byte_at=took))
        policy.settled(ahead, answered(ahead, first_byte_at=0.1 + 0.00005 * ahead.request.prompt_tokens))
    policy.decided(decision(workers, 1, tokens(5, 1000)))
    learned = totals(policy, asked(tokens(1)), workers)
    assert learned == pytest.approx([0.05 * 1600, 0.05 * 1600 + 0.01 * 1000], rel=1e-6)
