"""POST /v1/messages: Anthropic's messages API, as vLLM serves it beside OpenAI's."""

from typing import Any

from warmroute.emulator.answer_format.dialect import Exchange, json_bytes, named_sse

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}


class MessagesFormat:
    """One assistant message of one text block. `input_tokens` excludes what was read from the cache."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._answer = exchange.answers[0]

    def opening(self, cached_tokens: int) -> bytes:
        message = self._message([], None, self._usage(cached_tokens, output_tokens=0))
        block = {"type": "text", "text": ""}
        return named_sse("message_start", {"message": message}) + named_sse(
            "content_block_start", {"index": 0, "content_block": block}
        )

    def token(self, index: int, position: int) -> bytes:
        delta = {"type": "text_delta", "text": self._answer.pieces[position]}
        return named_sse("content_block_delta", {"index": 0, "delta": delta})

    def closing(self, cached_tokens: int) -> bytes:
        usage = self._usage(cached_tokens, output_tokens=len(self._answer.pieces))
        delta = {"stop_reason": _STOP_REASONS[self._answer.finish_reason], "stop_sequence": None}
        return (
            named_sse("content_block_stop", {"index": 0})
            + named_sse("message_delta", {"delta": delta, "usage": usage})
            + named_sse("message_stop", {})
        )

    def whole(self, cached_tokens: int) -> bytes:
        content = [{"type": "text", "text": self._answer.text}]
        usage = self._usage(cached_tokens, output_tokens=len(self._answer.pieces))
        return json_bytes(self._message(content, _STOP_REASONS[self._answer.finish_reason], usage))

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

    def _usage(self, cached_tokens: int, output_tokens: int) -> dict[str, int]:
        prompt_tokens = self._exchange.usage(cached_tokens).prompt_tokens
        return {
            "input_tokens": prompt_tokens - cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached_tokens,
            "output_tokens": output_tokens,
        }
