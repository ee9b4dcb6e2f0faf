"""Schedules that were worked out by hand: who computes which tokens in which step, and when it starts and ends.

Blocks hold 4 tokens and a step takes 1 s, unless the test says otherwise. A request's first token comes at the end of
the step that computes the last of its prompt.
"""

import pytest

from engine_model.timetable import Row, timetable
from engine_model.worlds import options, request
from warmroute.engine_model import EngineModel

# 1 s, 0.5 s per request, 1/8 s per token of context; 8 prompt tokens/s, half as fast after 16 tokens, and beside
# decoding requests half of that again.
_PRICED = {
    "step_per_running_s": 0.5,
    "step_per_context_token_s": 0.125,
    "prefill_tokens_per_s": 8.0,
    "prefill_context_tokens": 16.0,
    "mixed_step_factor": 2.0,
}


def test_a_prompt_is_computed_in_chunks() -> None:
    engine = EngineModel(options(max_num_batched_tokens=8))
    assert timetable(engine, [(0.0, request("a", range(20), answer=2))]) == [
        Row(0, 1, "a[0:8]"),
        Row(1, 2, "a[8:16]"),
        Row(2, 3, "a[16:20]"),
        Row(3, 4, "a", finished="a"),
    ]


def test_decoding_comes_before_prompts_out_of_one_budget() -> None:
    engine = EngineModel(options(max_num_batched_tokens=8))
    arrivals = [(0.0, request("a", range(4), answer=4)), (0.0, request("b", range(100, 112), answer=2))]
    assert timetable(engine, arrivals) == [
        Row(0, 1, "a[0:4] b[0:4]"),
        Row(1, 2, "a b[4:11]"),
        Row(2, 3, "a b[11:12]"),
        Row(3, 4, "a b", finished="a b"),
    ]


def test_a_prompt_waits_where_the_budget_is_used_up() -> None:
    engine = EngineModel(options(max_num_batched_tokens=8))
    arrivals = [(0.0, request("a", range(12))), (0.5, request("b", range(100, 104), answer=2))]
    assert timetable(engine, arrivals) == [
        Row(0, 1, "a[0:8]"),
        Row(1, 2, "a[8:12] b[0:4]", finished="a"),
        Row(2, 3, "b", finished="b"),
    ]


def test_the_youngest_gives_up_its_blocks_and_computes_all_anew() -> None:
    """4 blocks. Both hold 2 until `old` needs a third one; `young`, whose first block is still found then, would need 2
    more where 1 is left. At 6 s `old` takes that first block too. 2 tokens `young` had already generated: it computes
    them again with its prompt, 9 tokens together.
    """
    engine = EngineModel(options(num_blocks=4, max_model_len=16))
    arrivals = [(0.0, request("old", range(7), answer=9)), (0.0, request("young", range(100, 107), answer=9))]
    assert timetable(engine, arrivals) == [
        Row(0, 1, "old[0:7] young[0:7]"),
        Row(1, 2, "old young"),
        Row(2, 3, "old", preempted="young"),
        *(Row(at, at + 1, "old") for at in (3, 4, 5, 6, 7)),
        Row(8, 9, "old", finished="old"),
        Row(9, 10, "young[0:9]"),
        *(Row(at, at + 1, "young") for at in (10, 11, 12, 13, 14)),
        Row(15, 16, "young", finished="young"),
    ]
    assert engine.state().preemptions == 1


def test_a_preempted_request_computes_only_what_was_lost() -> None:
    """6 blocks: `short` ends before `long` takes more than the last block of `young`."""
    engine = EngineModel(options(num_blocks=6, max_model_len=24))
    arrivals = [
        (0.0, request("short", range(200, 204), answer=4)),
        (0.0, request("long", range(7), answer=5)),
        (0.0, request("young", range(100, 107), answer=4)),
    ]
    assert timetable(engine, arrivals) == [
        Row(0, 1, "short[0:4] long[0:7] young[0:7]"),  # 1 + 2 + 2 blocks
        Row(1, 2, "short long young"),  # short takes the sixth
        Row(2, 3, "short long", preempted="young"),  # long takes the last block of young
        Row(3, 4, "short long", finished="short"),
        Row(4, 5, "long young[4:9]", finished="long"),
        Row(5, 6, "young", finished="young"),
    ]


def test_a_prefix_is_found_up_to_the_last_token() -> None:
    engine = EngineModel(options())
    arrivals = [
        (0.0, request("first", range(8))),
        (1.0, request("same", range(8))),
        (2.0, request("longer", range(9))),
        (3.0, request("other", [0, 1, 2, 3, 9, 9, 9, 9])),
    ]
    assert timetable(engine, arrivals) == [
        Row(0, 1, "first[0:8]", finished="first"),
        Row(1, 2, "same[4:8]", finished="same"),
        Row(2, 3, "longer[8:9]", finished="longer"),
        Row(3, 4, "other[4:8]", finished="other"),
    ]


def test_equal_prompts_in_one_step_are_computed_once() -> None:
    """As in vLLM a block can be found in the step that computes it."""
    arrivals = [(0.0, request(name, range(8))) for name in ("a", "b")]
    assert timetable(EngineModel(options()), arrivals) == [Row(0, 1, "a[0:8] b[4:8]", finished="a b")]


def test_blocks_are_evicted_from_the_tail() -> None:
    """4 blocks: `a` leaves 3, `b` takes the fourth, `c` the last two of `a`."""
    engine = EngineModel(options(num_blocks=4))
    arrivals = [
        (0.0, request("a", range(12))),
        (1.0, request("b", range(100, 104))),
        (2.0, request("c", range(200, 208))),
        (3.0, request("a again", range(12))),
    ]
    assert timetable(engine, arrivals)[-1] == Row(3, 4, "a again[4:12]", finished="a again")


def test_the_least_recently_used_prompt_is_evicted_first() -> None:
    """3 blocks. `a` was used again after `b`; `c` takes the block of `b`."""
    engine = EngineModel(options(num_blocks=3))
    arrivals = [
        (0.0, request("a", range(5))),  # 2 blocks, one of them full
        (1.0, request("b", range(100, 104))),
        (2.0, request("a again", range(5))),
        (3.0, request("c", range(200, 208))),  # the unfilled one, then that of b
        (4.0, request("a still", range(5))),
        (5.0, request("b again", range(100, 104))),
    ]
    works = [row.work for row in timetable(engine, arrivals)]
    assert works == ["a[0:5]", "b[0:4]", "a again[4:5]", "c[0:8]", "a still[4:5]", "b again[0:4]"]


def test_steps_cost_what_they_read_and_compute() -> None:
    """Steps of: a prompt of 8; a decoding request with 9 tokens of context beside a prompt; one with 10 tokens.

    1 + 0.5 + 8 / 8 x (1 + 4 / 16) = 2.75;  1 + 2 x 0.5 + 9 / 8 + 2 x 1.25 = 5.625;  1 + 0.5 + 10 / 8 = 2.75
    """
    engine = EngineModel(options(**_PRICED))
    arrivals = [(0.0, request("a", range(8), answer=3)), (1.0, request("b", range(100, 108)))]
    assert timetable(engine, arrivals) == [
        Row(0, 2.75, "a[0:8]"),
        Row(2.75, 8.375, "a b[0:8]", finished="b"),
        Row(8.375, 11.125, "a", finished="a"),
    ]


def test_later_chunks_of_a_prompt_cost_more() -> None:
    """The second 8 tokens follow 8 others: 8 / 8 x (1 + 12 / 16) = 1.75, where the first 8 take 1.25."""
    engine = EngineModel(options(**(_PRICED | {"max_num_batched_tokens": 8})))
    rows = timetable(engine, [(0.0, request("a", range(16)))])
    assert [row.end - row.start for row in rows] == [2.75, 3.25]


def test_iterations_of_one_step_become_slower_as_answers_grow() -> None:
    """Contexts of 9 to 12 tokens: 4 x 1.5 + (9 + 10 + 11 + 12) / 8 = 11.25."""
    engine = EngineModel(options(**_PRICED))
    assert timetable(engine, [(0.0, request("a", range(8), answer=5))], most=100) == [
        Row(0, 2.75, "a[0:8]"),
        Row(2.75, 14.0, "a x4", finished="a"),
    ]


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({"step_base_s": 1.0, "prefill_tokens_per_s": 8.0}, [2.0, 3.0]),
        ({"step_base_s": 3.0, "prefill_tokens_per_s": 2.0}, [7.0, 10.0]),
        ({"step_base_s": 1.0, "prefill_tokens_per_s": 8.0, "max_num_batched_tokens": 4}, [1.5, 3.0, 4.0]),
    ],
)
def test_engines_of_different_hardware_do_the_same_in_their_own_time(
    changes: dict[str, float], ends: list[float]
) -> None:
    rows = timetable(EngineModel(options(**changes)), [(0.0, request("a", range(8), answer=2))])
    assert [row.end for row in rows] == ends
