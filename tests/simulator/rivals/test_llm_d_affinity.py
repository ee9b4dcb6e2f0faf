"""Sticky until saturated."""

from collections.abc import Callable

import pytest

from simulator.rivals.hand_made import ENDS, asked, candidate, choices, decision, first_byte, fleet, tokens, totals
from warmroute.block import Overlap
from warmroute.policy import Candidate
from warmroute.router import Decision, Outcome
from warmroute.simulator.rivals.llm_d_affinity import LlmDAffinityPolicy

FULL = 4 * 2**20


def test_those_that_were_sent_eight_tenths_are_kept() -> None:
    policy, workers = LlmDAffinityPolicy(), fleet(0, 0, 0)
    sent = decision(workers, 1, tokens(1))
    policy.decided(sent)
    first_byte(sent)
    # 25 blocks of 64: 20 are 0.8.
    text = tokens(1, 20 * 64) + tokens(2, 5 * 64)
    assert totals(policy, asked(text), workers) == [1600 / FULL + 1, 320 / FULL, 1600 / FULL + 1]
    # 19 are not enough, so all are kept; who has to compute less is still ahead.
    text = tokens(1, 19 * 64) + tokens(2, 6 * 64)
    assert totals(policy, asked(text), workers) == [1600 / FULL, 384 / FULL, 1600 / FULL]


def test_events_are_not_heard() -> None:
    workers = [candidate(0, overlap=Overlap(device=100)), candidate(1)]
    assert choices(LlmDAffinityPolicy(), asked(tokens(1)), workers) == {0, 1}


def busy(policy: LlmDAffinityPolicy, workers: list[Candidate], position: int, prompt_tokens: int) -> Decision:
    sent = decision(workers, position, tokens(99, prompt_tokens))
    policy.decided(sent)
    return sent


def test_affinity_ends_when_it_costs_more_than_eighteen_seconds() -> None:
    # 18 s x 15,928 tokens/s = 286,704 tokens.
    policy, workers = LlmDAffinityPolicy(), fleet(0, 0)
    sent = decision(workers, 1, tokens(1))
    policy.decided(sent)
    first_byte(sent)
    busy(policy, workers, 1, 286_704)
    assert choices(policy, asked(tokens(1)), workers) == {1}
    extra = decision(workers, 1, tokens(3, 64))
    policy.decided(extra)
    assert choices(policy, asked(tokens(1)), workers) == {0}
    first_byte(extra)
    assert choices(policy, asked(tokens(1)), workers) == {1}


def test_tokens_in_flight_are_the_uncached_ones() -> None:
    policy, workers = LlmDAffinityPolicy(), fleet(0, 0)
    first = decision(workers, 1, tokens(1))
    policy.decided(first)
    first_byte(first)
    policy.decided(decision(workers, 1, tokens(1, 20 * 64) + tokens(2, 5 * 64)))
    assert totals(policy, asked(tokens(7)), workers) == [1600 / FULL, (1600 + 320) / FULL]


@pytest.mark.parametrize("end", ENDS)
def test_they_are_released_at_the_end_whatever_it_was(end: Callable[[Decision], Outcome]) -> None:
    policy, workers = LlmDAffinityPolicy(), fleet(0, 0)
    sent = busy(policy, workers, 0, 6400)
    assert totals(policy, asked(tokens(7)), workers) == [8000 / FULL, 1600 / FULL]
    policy.settled(sent, end(sent))
    assert totals(policy, asked(tokens(7)), workers) == [1600 / FULL, 1600 / FULL]


def test_a_full_worker_costs_one_and_no_more() -> None:
    policy, workers = LlmDAffinityPolicy(), fleet(0, 0)
    sent = decision(workers, 0)
    sent.request.prompt_tokens = 5_000_000
    policy.decided(sent)
    assert totals(policy, asked(tokens(7)), workers)[0] == 1.0
