"""POST /v1/messages: Anthropic's messages API, as vLLM serves it beside OpenAI's."""

from typing import Any

from warmroute.emulator.answer_format.dialect import Exchange, json_bytes, named_sse

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}


class MessagesFormat:
    """One assistant message of one text block.

    As in Anthropic's API `input_tokens` leaves out what was read from the cache and what was written to it; only the
    beginning of a stream, where vLLM does not tell of the cache yet, has all of them.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._answer = exchange.answers[0]

    def opening(self, cached_tokens: int) -> bytes:
        usage = {"input_tokens": self._exchange.usage(cached_tokens).prompt_tokens, "output_tokens": 0}
        message = self._message([], None, usage)
        block = {"type": "text", "text": ""}
        return named_sse("message_start", {"message": message}) + named_sse(
            "content_block_start", {"content_block": block, "index": 0}
        )

    def token(self, index: int, position: int) -> bytes:
        delta = {"type": "text_delta", "text": self._answer.pieces[position]}
        return named_sse("content_block_delta", {"delta": delta, "index": 0})

    def closing(self, cached_tokens: int) -> bytes:
        usage = self._usage(cached_tokens)
        delta = {"stop_reason": _STOP_REASONS[self._answer.finish_reason], "stop_sequence": None}
        return (
            named_sse("content_block_stop", {"index": 0})
            + named_sse("message_delta", {"delta": delta, "usage": usage})
            + named_sse("message_stop", {})
        )

    def whole(self, cached_tokens: int) -> bytes:
        content = [{"type": "text", "text": self._answer.text}]
        usage = self._usage(cached_tokens)
        message = self._message(content, _STOP_REASONS[self._answer.finish_reason], usage)
        del message["stop_sequence"]  # vLLM leaves out what is null here, but not in a stream
        return json_bytes(message)

    def _message(self, content: list[dict[str, Any]], stop_reason: str | None, usage: dict[str, int]) -> dict[str, Any]:
        return {
            "id": f"msg_{self._exchange.digest}",
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self._exchange.model,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def _usage(self, cached_tokens: int) -> dict[str, int]:
        usage = self._exchange.usage(cached_tokens)
        return {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens - usage.created_cache_tokens,
            "output_tokens": usage.completion_tokens,
            "cache_creation_input_tokens": usage.created_cache_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
        }
