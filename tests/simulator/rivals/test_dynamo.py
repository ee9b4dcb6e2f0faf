"""Dynamo's cost against figures made by hand; blocks of 16, prompts of 1,600 tokens: 100 blocks."""

import random
from collections.abc import Callable

import pytest

from simulator.rivals.hand_made import ENDS, asked, candidate, choices, decision, first_byte, tokens, totals
from warmroute.block import Overlap
from warmroute.router import Decision, Outcome
from warmroute.simulator.rivals.dynamo import DynamoPolicy


def test_prefill_less_overlap_plus_blocks_to_keep() -> None:
    workers = [
        candidate(0),
        candidate(1, overlap=Overlap(device=40)),
        candidate(2, overlap=Overlap(device=40, host=20, disk=8)),
        candidate(3, overlap=Overlap(device=40, predicted=60)),
    ]
    # 100 to keep everywhere; to prefill 100, 60, 100 - 40 - 0.75 x 20 - 0.25 x 8 = 43, and 60: what is only expected
    # does not count.
    assert totals(DynamoPolicy(), asked(tokens(1)), workers) == [200.0, 160.0, 143.0, 160.0]


def test_the_prefill_load_scale() -> None:
    workers = [candidate(0, overlap=Overlap(device=40))]
    assert totals(DynamoPolicy(0.25), asked(tokens(1)), workers) == [0.25 * 60 + 100]
    assert totals(DynamoPolicy(32.0), asked(tokens(1)), workers) == [32 * 60 + 100]


def test_prompts_being_prefilled_and_blocks_of_requests_in_flight_count() -> None:
    policy = DynamoPolicy()
    workers = [candidate(0, overlap=Overlap(device=25)), candidate(1)]
    sent = decision(workers, 0, tokens(1))
    policy.decided(sent)
    # Worker 0: 1,600 - 25 x 16 = 1,200 tokens being prefilled, 75 blocks, and 100 blocks in flight.
    same, other = [candidate(0), candidate(1)], tokens(2)
    assert totals(policy, asked(tokens(1)), same) == [75 + 100 + 100, 200.0]
    assert totals(policy, asked(other), same) == [75 + 100 + 200, 200.0]
    assert totals(policy, asked(tokens(1, 800) + other[:800]), same) == [75 + 100 + 150, 200.0]
    first_byte(sent)
    assert totals(policy, asked(other), same) == [100 + 200, 200.0]


def test_the_credit_is_taken_off_everything_ahead_but_not_below_nothing() -> None:
    policy = DynamoPolicy()
    workers = [candidate(0, overlap=Overlap(device=100))]
    assert totals(policy, asked(tokens(1)), workers) == [100.0]
    policy.decided(decision([candidate(0)], 0, tokens(2)))
    assert totals(policy, asked(tokens(1)), workers) == [100.0 + 200.0]


@pytest.mark.parametrize("end", ENDS)
def test_all_is_released_at_the_end_whatever_it_was(end: Callable[[Decision], Outcome]) -> None:
    policy, workers = DynamoPolicy(), [candidate(0), candidate(1)]
    sent = [decision(workers, 0, tokens(1)), decision(workers, 0, tokens(1)), decision(workers, 0, None)]
    for each in sent:
        policy.decided(each)
    assert totals(policy, asked(tokens(3)), workers)[0] > 200.0
    for each in sent:
        policy.settled(each, end(each))
    assert totals(policy, asked(tokens(3)), workers) == [200.0, 200.0]


def test_equals_are_told_apart_by_chance() -> None:
    assert choices(DynamoPolicy(), asked(tokens(1)), [candidate(0), candidate(1), candidate(2)]) == {0, 1, 2}


def test_terms_add_up() -> None:
    workers = [candidate(0, overlap=Overlap(device=7)), candidate(1)]
    for cost in DynamoPolicy(3.0).costs(asked(tokens(1)), workers, random.Random(0)):
        assert cost.total == sum(cost.terms.values())
