"""What the handlers of one emulated server share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from warmroute.emulator.answer import AnswerBook, Codec
from warmroute.emulator.kv_buffer import KvBuffer
from warmroute.emulator.kv_publisher import KvPublisher
from warmroute.emulator.metrics import ServerMetrics
from warmroute.emulator.options import EmulatorOptions
from warmroute.emulator.prompt_ids import PromptReader
from warmroute.emulator.real_time import RealTimeEngine
from warmroute.emulator.refusal import refused, unknown_model


@dataclass(frozen=True, slots=True)
class EngineServer:
    """The engines, one for each data-parallel rank, and what stands around them.

    `publishers` or `buffers` has one for each rank, in the same order, or none: KV events go out one way at most.
    """

    options: EmulatorOptions
    codec: Codec
    book: AnswerBook
    reader: PromptReader
    engines: Sequence[RealTimeEngine]
    metrics: ServerMetrics
    publishers: Sequence[KvPublisher]
    buffers: Sequence[KvBuffer]

    @property
    def context_tokens(self) -> int:
        return self.options.engine.context_tokens

    def kv_event_sources(self) -> dict[str, dict[str, Any]]:
        """The answer to GET /kv_event_sources: data-parallel rank -> where its events come from."""
        return {str(rank): publisher.source() for rank, publisher in enumerate(self.publishers)}

    def engine_for(self, request: web.Request) -> RealTimeEngine:
        """The engine that `X-data-parallel-rank` names, or the one with the fewest requests, the first of equals.

        As in vLLM a header that is no number is ignored. Raises the 400 where there is no such rank.
        """
        try:
            rank = int(request.headers.get("X-data-parallel-rank", ""))
        except ValueError:
            return min(self.engines, key=lambda engine: engine.in_flight)
        if not 0 <= rank < len(self.engines):
            raise refused(f"data_parallel_rank {rank} is out of range [0, {len(self.engines)}).")
        return self.engines[rank]

    def check_model(self, model: str | None) -> None:
        """Raise the 404 unless this engine serves `model`; no model means the one there is, as in vLLM."""
        if model is not None and model != self.options.model_name:
            raise unknown_model(model)

    def check_length(self, prompt_tokens: int, answer_tokens: int) -> None:
        """Raise the 400 unless prompt and answer fit into the context."""
        if prompt_tokens + answer_tokens > self.context_tokens:
            raise refused(
                f"This model's maximum context length is {self.context_tokens} tokens. However, you requested"
                f" {answer_tokens} output tokens and your prompt contains {prompt_tokens} input tokens, for a total of"
                f" {prompt_tokens + answer_tokens} tokens. Please reduce the length of the input prompt or the number"
                " of requested output tokens.",
                param="input_tokens",
            )


SERVER = web.AppKey("SERVER", EngineServer)
