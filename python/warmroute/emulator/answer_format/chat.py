"""POST /v1/chat/completions as vLLM answers it. There is one answer, to one conversation."""

from typing import Any

from warmroute.emulator.answer_format.dialect import CREATED, Exchange, PieceTemplate, json_bytes, sse


class ChatFormat:
    """One assistant message."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._answer = exchange.answers[0]
        self._common = {
            "id": f"chatcmpl-{exchange.digest}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": exchange.model,
        }
        self._template = PieceTemplate(self._chunk({"content": PieceTemplate.HOLE}))

    def opening(self, cached_tokens: int) -> bytes:
        ids = list(self._exchange.prompts[0]) if self._exchange.return_token_ids else None
        return sse(json_bytes({**self._chunk({"role": "assistant", "content": ""}), "prompt_token_ids": ids}))

    def token(self, index: int, position: int) -> bytes:
        piece = self._answer.pieces[position]
        last = position == len(self._answer.pieces) - 1
        if not (last or self._exchange.return_token_ids):
            return sse(self._template.fill(piece))
        chunk = self._chunk({"content": piece}, self._answer.finish_reason if last else None)
        if self._exchange.return_token_ids:
            chunk["choices"][0]["token_ids"] = [self._answer.token_ids[position]]
        if last:
            chunk["choices"][0]["stop_reason"] = None
        return sse(json_bytes(chunk))

    def closing(self, cached_tokens: int) -> bytes:
        done = sse(b"[DONE]")
        if not self._exchange.include_usage:
            return done
        usage = self._exchange.usage(cached_tokens).openai()
        return sse(json_bytes({**self._common, "choices": [], "usage": usage})) + done

    def whole(self, cached_tokens: int) -> bytes:
        with_ids = self._exchange.return_token_ids
        choice = {
            "index": 0,
            "message": self._message(),
            "logprobs": None,
            "finish_reason": self._answer.finish_reason,
            "stop_reason": None,
            "token_ids": self._answer.token_ids if with_ids else None,
        }
        tail = {
            "service_tier": None,
            "system_fingerprint": None,
            "usage": self._exchange.usage(cached_tokens).openai(),
            "prompt_logprobs": None,
            "prompt_token_ids": list(self._exchange.prompts[0]) if with_ids else None,
            "kv_transfer_params": None,
        }
        return json_bytes({**self._common, "object": "chat.completion", "choices": [choice], **tail})

    def _message(self) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": self._answer.text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "tool_calls": [],
            "reasoning": None,
        }

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._common, "choices": [choice]}
