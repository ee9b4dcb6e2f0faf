"""The engines that workloads are put on."""

import dataclasses

from warmroute.engine_model import EngineOptions

QWEN_32B_H100_TP2 = EngineOptions(block_size=64, num_blocks=341_000 // 64)
QWEN_32B_H100_TP2_2025 = EngineOptions(
    block_size=64,
    num_blocks=307_328 // 64,
    step_base_s=0.0205,
    step_per_running_s=0.00027,
    prefill_tokens_per_s=14_000.0,
)
LLAMA_70B_H100_TP4 = EngineOptions(block_size=64, num_blocks=461_376 // 64)


def with_context(pod: EngineOptions, context_tokens: int) -> EngineOptions:
    """The pod with room for prompts and answers of so many tokens, as far as its KV goes."""
    return dataclasses.replace(pod, max_model_len=min(pod.capacity_tokens, context_tokens))


LLAMA_8B_H100 = EngineOptions(
    block_size=64,
    num_blocks=412_000 // 64,
    max_model_len=131_072,
    step_base_s=0.0075,
    step_per_running_s=0.00014,
    prefill_tokens_per_s=35_000.0,
)
QWEN_32B_A100_TP2 = EngineOptions(
    block_size=64,
    num_blocks=341_000 // 64,
    step_base_s=0.027,
    step_per_running_s=0.0005,
    prefill_tokens_per_s=7_500.0,
)
