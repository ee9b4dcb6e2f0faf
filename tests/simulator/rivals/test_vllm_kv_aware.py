"""vllm-router's kv_aware against figures made by hand."""

from collections.abc import Callable

import pytest

from simulator.rivals.hand_made import ENDS, asked, candidate, choices, decision, first_byte, tokens
from warmroute.block import Overlap
from warmroute.router import Decision, Outcome
from warmroute.simulator.rivals.vllm_kv_aware import VllmKvAwarePolicy


def test_work_times_company() -> None:
    # 1,600 x (1 + 1) = 3,200 against (1,600 - 1,200) x (7 + 1) = 3,200: the first of equals.
    workers = [candidate(0, 1), candidate(1, 7, Overlap(device=75))]
    assert choices(VllmKvAwarePolicy(), asked(tokens(1)), workers) == {0}
    workers = [candidate(0, 1), candidate(1, 6, Overlap(device=75))]
    assert choices(VllmKvAwarePolicy(), asked(tokens(1)), workers) == {1}


def test_the_credit_of_each_tier() -> None:
    workers = [
        candidate(0, overlap=Overlap(host=50)),  # 1,600 - 640 = 960
        candidate(1, overlap=Overlap(remote=60)),  # 1,600 - 576 = 1,024
        candidate(2, overlap=Overlap(disk=90)),  # 1,600 - 432 = 1,168
        candidate(3, overlap=Overlap(device=41)),  # 1,600 - 656 = 944
        candidate(4, overlap=Overlap(device=30, predicted=70)),  # 1,600 - 480 = 1,120
    ]
    order = []
    while workers:
        best = choices(VllmKvAwarePolicy(), asked(tokens(1)), workers).pop()
        order.append(int(workers.pop(best).worker.key))
    assert order == [3, 0, 1, 4, 2]


def test_a_prompt_that_is_held_whole_still_costs_a_token() -> None:
    # 1 x (0 + 1) against 1 x (4 + 1): otherwise both would be nothing, and the first would win.
    workers = [candidate(0, 4, Overlap(device=100)), candidate(1, 0, Overlap(device=100))]
    assert choices(VllmKvAwarePolicy(), asked(tokens(1)), workers) == {1}


@pytest.mark.parametrize("end", ENDS)
def test_prompts_being_prefilled_count_until_the_first_byte_or_the_end(end: Callable[[Decision], Outcome]) -> None:
    policy, workers = VllmKvAwarePolicy(), [candidate(0), candidate(1)]
    assert choices(policy, asked(tokens(1)), workers) == {0}
    sent, other = decision(workers, 0), decision(workers, 0)
    policy.decided(sent)
    policy.decided(other)
    assert choices(policy, asked(tokens(1)), workers) == {1}
    first_byte(sent)
    assert choices(policy, asked(tokens(1)), workers) == {1}
    policy.settled(other, end(other))
    assert choices(policy, asked(tokens(1)), workers) == {0}
