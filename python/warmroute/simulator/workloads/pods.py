"""The engines that workloads are put on."""

import dataclasses

from warmroute.engine_model import EngineOptions, presets

QWEN_32B_H100_TP2 = presets.QWEN3_32B_H100_TP2.options
QWEN_32B_H100_TP2_2025 = presets.QWEN3_32B_H100_TP2_2025.options
QWEN_32B_A100_TP2 = presets.QWEN3_32B_A100_TP2.options
LLAMA_70B_H100_TP4 = presets.LLAMA_70B_H100_TP4.options
LLAMA_8B_H100 = presets.LLAMA_8B_H100.options
GPT_OSS_120B_H100_TP2 = presets.GPT_OSS_120B_H100_TP2.options


def with_context(pod: EngineOptions, context_tokens: int) -> EngineOptions:
    """The pod with room for prompts and answers of so many tokens, as far as its KV goes."""
    return dataclasses.replace(pod, max_model_len=min(pod.capacity_tokens, context_tokens))


def with_capacity(pod: EngineOptions, capacity_tokens: int) -> EngineOptions:
    """The pod with KV for so many tokens, as where others have a part of its memory."""
    return dataclasses.replace(pod, num_blocks=capacity_tokens // pod.block_size)
