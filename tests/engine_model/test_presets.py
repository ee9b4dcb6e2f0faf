"""The named engines: plausible beside each other and beside the hardware that they stand for."""

import pytest

from warmroute.engine_model import EngineModel, EngineOptions, Request
from warmroute.engine_model.presets import (
    LLAMA_8B_H100,
    LLAMA_70B_H100_TP4,
    PRESETS,
    QWEN3_32B_A100_TP2,
    QWEN3_32B_H100_TP2,
    QWEN3_32B_H100_TP2_2025,
    QWEN3_32B_L40S_TP4,
)
from warmroute.engine_model.step_time import prefill_s, step_s


def test_the_defaults_are_the_pod_of_2026_in_small_blocks() -> None:
    pod = QWEN3_32B_H100_TP2.options
    assert pod.block_size == 64
    assert EngineOptions() == EngineOptions(num_blocks=341_000 // 16)
    assert EngineOptions(block_size=pod.block_size, num_blocks=pod.num_blocks) == pod
    assert abs(pod.capacity_tokens - EngineOptions().capacity_tokens) < 64


@pytest.mark.parametrize(
    ("options", "capacity"),
    [(QWEN3_32B_H100_TP2_2025.options, 307_328), (LLAMA_70B_H100_TP4.options, 461_376)],
)
def test_published_capacities_are_whole_blocks(options: EngineOptions, capacity: int) -> None:
    assert options.capacity_tokens == capacity


@pytest.mark.parametrize("name", PRESETS)
def test_each_has_its_name_and_serves_a_request(name: str) -> None:
    preset = PRESETS[name]
    assert preset.name == name
    assert preset.about
    assert preset.source
    engine = EngineModel(preset.options)
    engine.submit(Request("a", range(2000), range(10)), 0.0)
    step = engine.step(preset.options.request_overhead_s)
    assert step is not None
    assert 0.02 < step.ends_at < 1.0
    assert len(engine.complete(step).outputs) == 1


def test_at_low_load_the_pod_takes_14_ms_per_token() -> None:
    """Published for 2026: 14 to 15 ms, at about 4 requests in a pod."""
    assert 0.0135 < step_s(QWEN3_32B_H100_TP2.options, 4, 4, 4 * 8_000, []) < 0.015


@pytest.mark.parametrize("slower", [QWEN3_32B_A100_TP2.options, QWEN3_32B_L40S_TP4.options])
def test_older_and_smaller_cards_are_slower_at_everything(slower: EngineOptions) -> None:
    fast = QWEN3_32B_H100_TP2.options
    assert prefill_s(slower, 0, 8192) > 2 * prefill_s(fast, 0, 8192)
    assert step_s(slower, 32, 32, 32 * 8_000, []) > 1.4 * step_s(fast, 32, 32, 32 * 8_000, [])


def test_a_smaller_model_is_faster_and_has_room_for_long_contexts() -> None:
    small, large = LLAMA_8B_H100.options, QWEN3_32B_H100_TP2.options
    assert small.context_tokens == 131_072
    assert prefill_s(small, 0, 8192) < prefill_s(large, 0, 8192)
    assert step_s(small, 32, 32, 32 * 4_000, []) < step_s(large, 32, 32, 32 * 4_000, [])
