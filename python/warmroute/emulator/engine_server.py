"""What the handlers of one emulated engine share."""

from dataclasses import dataclass

from aiohttp import web

from warmroute.emulator.answer import AnswerBook, Codec
from warmroute.emulator.kv_publisher import KvPublisher
from warmroute.emulator.metrics import EngineMetrics
from warmroute.emulator.options import EmulatorOptions
from warmroute.emulator.prompt_ids import PromptReader
from warmroute.emulator.real_time import RealTimeEngine
from warmroute.emulator.refusal import refused, unknown_model


@dataclass(frozen=True, slots=True)
class EngineServer:
    """One engine and what stands around it. `publisher` is None without KV events."""

    options: EmulatorOptions
    codec: Codec
    book: AnswerBook
    reader: PromptReader
    engine: RealTimeEngine
    metrics: EngineMetrics
    publisher: KvPublisher | None

    @property
    def context_tokens(self) -> int:
        return self.options.engine.context_tokens

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
