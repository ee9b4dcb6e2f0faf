"""The price of a step, and the arithmetic of steps that get slower from iteration to iteration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_model.worlds import options
from warmroute.engine_model.step import Batch, Step
from warmroute.engine_model.step_time import Chunk, prefill_s, step_s

_PRICED = options(
    step_base_s=1.0,
    step_per_running_s=0.5,
    step_per_context_token_s=0.125,
    prefill_tokens_per_s=8.0,
    prefill_context_tokens=16.0,
    mixed_step_factor=2.0,
)


def test_decoding_costs_what_it_reads() -> None:
    assert step_s(_PRICED, running=3, decoding=3, context=24, chunks=[]) == 1.0 + 1.5 + 3.0


def test_a_prompt_costs_the_same_in_one_chunk_or_several() -> None:
    whole = prefill_s(_PRICED, 0, 32)
    assert whole == 32 / 8 * (1 + 16 / 16)
    assert sum(prefill_s(_PRICED, start, 8) for start in range(0, 32, 8)) == whole


def test_a_prompt_costs_more_beside_decoding() -> None:
    chunks = [Chunk("a", 0, 8), Chunk("b", 8, 8)]
    alone = step_s(_PRICED, running=2, decoding=0, context=0, chunks=chunks)
    assert alone == 1.0 + 1.0 + 1.25 + 1.75
    assert step_s(_PRICED, running=3, decoding=1, context=8, chunks=chunks) == 1.0 + 1.5 + 1.0 + 2 * 3.0


def test_without_attention_a_token_costs_the_same_everywhere() -> None:
    assert prefill_s(options(prefill_tokens_per_s=8.0), 10_000, 8) == 1.0


def test_the_pod_of_the_defaults_takes_as_long_as_was_published() -> None:
    """0.40 s for 8,192 tokens, in blocks of any size."""
    published = options(prefill_tokens_per_s=23_200.0, prefill_context_tokens=31_000.0)
    assert prefill_s(published, 0, 8192) == pytest.approx(0.40, abs=0.001)


# Times that are sums of powers of two, so that both ways of adding them up are exact.
_EIGHTHS = st.integers(1, 64).map(lambda eighths: eighths / 8)


@given(_EIGHTHS, st.integers(0, 8).map(lambda n: n / 64), st.integers(1, 60), st.integers(-8, 4_000))
def test_iterations_begin_and_end_when_their_sums_say(first: float, slowing: float, iterations: int, at: int) -> None:
    step = Step(Batch(), 3.0, first, slowing, iterations)
    now = 3.0 + at / 16
    ends = [3.0 + sum(first + slowing * i for i in range(count)) for count in range(iterations + 1)]
    assert step.ends_at == ends[-1]
    assert step.completed(now) == sum(end <= now for end in ends[1:])
    assert step.begun(now) == max(1, sum(begin < now for begin in ends[:-1]))


@given(st.floats(1e-6, 10.0), st.floats(0.0, 1e-3), st.integers(2, 2_000), st.floats(0.0, 1e6), st.floats(0.0, 1.0))
def test_they_do_so_for_any_figures(first: float, slowing: float, iterations: int, started: float, part: float) -> None:
    step = Step(Batch(), started, first, min(slowing, first), iterations)
    now = started + part * step.duration_s
    completed, begun = step.completed(now), step.begun(now)
    assert 0 <= completed <= begun <= min(iterations, completed + 1) or begun == 1
    cut = Step(Batch(), started, first, min(slowing, first), max(completed, 1))
    assert completed == 0 or cut.ends_at <= now
    cut.iterations = begun
    assert cut.ends_at >= now
