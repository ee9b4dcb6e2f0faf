"""How long a step takes.

    decode    base + per_running x requests + per_context_token x tokens of context that decoding requests read
    prefill   for each chunk: its tokens x (1 + mean context of its tokens / prefill_context_tokens) / prefill rate
    step      decode + prefill; the prefill times `mixed_step_factor` where there are both

The terms stand for what limits a GPU: reading the weights once per step (base), work per request such as sampling
(per running), reading the KV of every decoding request (per context token), arithmetic of the layers that is the same
for each prompt token, and attention, whose arithmetic grows with what stands before the token. In a mixed step prompts
share the kernels, the launches and the memory's bandwidth with decoding requests, for which other shapes are good.
"""

from collections.abc import Sequence
from typing import NamedTuple

from warmroute.engine_model.options import EngineOptions


class Chunk(NamedTuple):
    """`tokens` of a request's prompt that a step computes, after `start` tokens that are there already."""

    request_id: str
    start: int
    tokens: int


def prefill_s(options: EngineOptions, start: int, tokens: int) -> float:
    """Seconds that the GPU computes `tokens` of a prompt for, after the `start` ones before them."""
    seconds = tokens / options.prefill_tokens_per_s
    if options.prefill_context_tokens:
        seconds *= 1 + (start + tokens / 2) / options.prefill_context_tokens
    return seconds


def step_s(options: EngineOptions, running: int, decoding: int, context: int, chunks: Sequence[Chunk]) -> float:
    """Seconds of a step with `running` requests, of which `decoding` ones read `context` tokens together."""
    decode = options.step_base_s + options.step_per_running_s * running + options.step_per_context_token_s * context
    if not chunks:
        return decode
    prefill = sum(prefill_s(options, chunk.start, chunk.tokens) for chunk in chunks)
    return decode + (prefill * options.mixed_step_factor if decoding else prefill)
