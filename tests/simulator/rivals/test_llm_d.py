"""llm-d's blends against figures made by hand."""

import random

import pytest

from simulator.rivals.hand_made import answered, asked, candidate, choices, decision, fleet, tokens, totals
from warmroute.block import Overlap
from warmroute.simulator.rivals.llm_d import ColdOrder, approximate, by_load, optimized_baseline, precise
from warmroute.worker import LaneKey


def test_a_weighted_sum_of_scores() -> None:
    workers = [
        candidate(0, overlap=Overlap(device=50), waiting=4, kv_usage=0.5),
        candidate(1, overlap=Overlap(device=20, host=25), waiting=1, kv_usage=0.25),
        candidate(2, waiting=0, kv_usage=0.9),
    ]
    # prefix 50/100, (20 + 0.8 x 25)/100, 0; kv 0.5, 0.75, 0.1; queue 0, 3/4, 1; somebody has a block: no-hit-lru 0.5.
    expected = [-(3 * 0.5 + 2 * 0.5 + 0 + 1), -(3 * 0.4 + 2 * 0.75 + 2 * 0.75 + 1), -(0 + 2 * 0.1 + 2 * 1 + 1)]
    assert totals(precise(), asked(tokens(1)), workers) == pytest.approx(expected)


def test_equal_queues_score_one_and_a_worker_that_was_never_scraped_is_free() -> None:
    workers = [candidate(0, waiting=7, kv_usage=0.25), candidate(1, waiting=7)]
    workers[1].worker.report = None
    assert totals(by_load(), asked(), workers) == [-(1 - 7 / 7 + 0.75), -(1 + 1)]
    workers = [candidate(0, waiting=7, kv_usage=0.25), candidate(1, waiting=7, kv_usage=0.5)]
    assert totals(by_load(), asked(), workers) == [-1.75, -1.5]


def test_load_in_flight_is_not_seen_only_scraped_queues_are() -> None:
    assert choices(by_load(), asked(), fleet(0, 100)) == {0, 1}


def test_terms_add_up() -> None:
    workers = [candidate(0, overlap=Overlap(device=50), waiting=4, kv_usage=0.5), candidate(1)]
    for cost in precise().costs(asked(tokens(1)), workers, random.Random(0)):
        assert cost.total == sum(cost.terms.values())


class TestColdOrder:
    def test_those_never_used_first_then_the_least_recent(self) -> None:
        order, lanes = ColdOrder(), [LaneKey(key) for key in range(5)]
        assert order.scores(lanes) == [1.0, 0.75, 0.5, 0.25, 0.0]
        order.got(LaneKey(1))
        order.got(LaneKey(0))
        assert order.scores(lanes) == [0.0, 0.25, 1.0, 0.75, 0.5]
        order.got(LaneKey(1))
        assert order.scores(lanes) == [0.25, 0.0, 1.0, 0.75, 0.5]

    def test_lanes_that_are_gone_keep_their_places_and_nothing_falls_below_zero(self) -> None:
        order = ColdOrder()
        for key in (7, 8, 9, 0, 1):
            order.got(LaneKey(key))
        assert order.scores([LaneKey(0), LaneKey(1)]) == [0.0, 0.0]
        assert order.scores([LaneKey(1)]) == [1.0]

    def test_only_cold_prompts_move_it(self) -> None:
        policy, workers = precise(), fleet(0, 0, 0)
        assert choices(policy, asked(tokens(1)), workers) == {0}
        policy.decided(decision(workers, 0, tokens(1)))
        assert choices(policy, asked(tokens(2)), workers) == {1}
        warm = [candidate(0), candidate(1, overlap=Overlap(device=1)), candidate(2)]
        policy.decided(decision(warm, 1, tokens(3)))
        assert choices(policy, asked(tokens(2)), workers) == {1}


class TestPrecise:
    def test_what_was_sent_is_believed_for_two_seconds(self) -> None:
        policy, workers = precise(), fleet(0, 0)
        policy.decided(decision(workers, 1, tokens(1), now=10.0))
        assert totals(policy, asked(tokens(1), now=11.9), workers) == [-(2 + 2 + 1), -(3 + 2 + 2 + 1)]
        cold = totals(policy, asked(tokens(1), now=12.0), workers)
        assert cold == [-(2 + 2 + 2), -(2 + 2 + 0)]

    def test_belief_goes_on_after_what_is_confirmed_and_ends_at_a_gap(self) -> None:
        policy, text = precise(), tokens(1)
        policy.decided(decision([candidate(0)], 0, text[:800]))
        workers = [candidate(0, overlap=Overlap(device=25, predicted=75))]
        assert totals(policy, asked(text, now=1.0), workers) == [-(3 * 0.5 + 2 + 2 + 1)]
        beyond = [candidate(0, overlap=Overlap(device=60))]
        assert totals(policy, asked(text, now=1.0), beyond) == [pytest.approx(-(3 * 0.6 + 2 + 2 + 1))]

    def test_a_prompt_sent_again_is_believed_from_then_on(self) -> None:
        policy, workers = precise(), fleet(0, 0)
        policy.decided(decision(workers, 1, tokens(1), now=0.0))
        policy.decided(decision(workers, 1, tokens(1), now=1.5))
        policy.decided(decision(workers, 0, tokens(2), now=2.5))
        assert choices(policy, asked(tokens(1), now=3.4), workers) == {1}
        assert totals(policy, asked(tokens(1), now=3.5), workers)[1] > -7.0


class TestApproximate:
    def test_weights_of_one_and_the_first_4096_tokens_only(self) -> None:
        policy, workers = approximate(), [candidate(0, prompt_tokens=8000), candidate(1, prompt_tokens=8000)]
        policy.decided(decision(workers, 1, tokens(1, 8000)))
        assert totals(policy, asked(tokens(1, 4096) + tokens(2, 3904)), workers) == [-2.0, -3.0]
        assert totals(policy, asked(tokens(1, 2048) + tokens(2, 5952)), workers) == [-2.0, -2.5]

    def test_31250_blocks_of_16_for_each_worker(self) -> None:
        policy, workers = approximate(), fleet(0, 0)
        # 122 prompts of 256 blocks are 31,232; the next one takes 238 of the first one's, its beginning with them.
        for number in range(122):
            policy.decided(decision(workers, 1, tokens(number, 4096)))
        assert totals(policy, asked(tokens(0, 4096)), workers) == [-2.0, -3.0]
        policy.decided(decision(workers, 1, tokens(500, 4096)))
        assert totals(policy, asked(tokens(0, 4096)), workers) == [-2.0, -2.0]
        assert totals(policy, asked(tokens(1, 4096)), workers) == [-2.0, -3.0]

    def test_events_are_not_heard_and_ends_change_nothing(self) -> None:
        policy, workers = approximate(), [candidate(0, overlap=Overlap(device=100)), candidate(1)]
        assert choices(policy, asked(tokens(1)), workers) == {0, 1}
        sent = decision(workers, 1, tokens(1))
        policy.decided(sent)
        policy.settled(sent, answered(sent))
        assert choices(policy, asked(tokens(1)), workers) == {1}


class TestBaseline:
    def test_blocks_of_64_and_as_many_as_the_engine_has(self) -> None:
        policy = optimized_baseline()
        workers = [candidate(0, capacity_blocks=30), candidate(1, capacity_blocks=30)]
        policy.decided(decision(workers, 1, tokens(1)))  # 25 blocks
        assert totals(policy, asked(tokens(1)), workers)[1] == -(3 + 2 + 2 + 1)
        policy.decided(decision(workers, 1, tokens(2, 384)))  # 6 more: the first one's first block goes
        assert totals(policy, asked(tokens(1)), workers)[1] == -(0 + 2 + 2 + 0)

    def test_a_prompt_that_is_not_known_is_cold(self) -> None:
        assert totals(optimized_baseline(), asked(None), fleet(0, 0, 0)) == [-6.0, -5.0, -4.0]
