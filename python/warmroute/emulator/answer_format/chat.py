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
        self._template = PieceTemplate(self._chunk(PieceTemplate.HOLE, None))

    def opening(self, cached_tokens: int) -> bytes:
        ids = list(self._exchange.prompts[0]) if self._exchange.return_token_ids else None
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return sse(json_bytes({**self._common, "choices": [choice], "prompt_token_ids": ids, "prompt_text": None}))

    def token(self, index: int, position: int) -> bytes:
        piece = self._answer.pieces[position]
        last = position == len(self._answer.pieces) - 1
        if not (last or self._exchange.return_token_ids):
            return sse(self._template.fill(piece))
        ids = [self._answer.token_ids[position]] if self._exchange.return_token_ids else None
        return sse(json_bytes(self._last_chunk(piece, ids) if last else self._chunk(piece, ids)))

    def closing(self, cached_tokens: int) -> bytes:
        done = sse(b"[DONE]")
        if not self._exchange.include_usage:
            return done
        usage = self._exchange.usage(cached_tokens)
        told = usage.openai(created_cache_tokens=usage.created_cache_tokens)
        return sse(json_bytes({**self._common, "choices": [], "usage": told})) + done

    def whole(self, cached_tokens: int) -> bytes:
        with_ids = self._exchange.return_token_ids
        usage = self._exchange.usage(cached_tokens)
        told = usage.openai(created_cache_tokens=usage.created_cache_tokens, multimodal_tokens=None)
        choice = {
            "index": 0,
            "message": self._message(),
            "logprobs": None,
            "finish_reason": self._answer.finish_reason,
            "stop_reason": None,
            "token_ids": self._answer.token_ids if with_ids else None,
            "routed_experts": None,
        }
        tail = {
            "service_tier": None,
            "system_fingerprint": None,
            "usage": {**told, "completion_tokens_details": None},
            "prompt_logprobs": None,
            "prompt_token_ids": list(self._exchange.prompts[0]) if with_ids else None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
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
            "reasoning": None,
        }

    def _chunk(self, piece: str, token_ids: list[int] | None) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta": {"content": piece},
            "logprobs": None,
            "finish_reason": None,
            "token_ids": token_ids,
        }
        return {**self._common, "choices": [choice]}

    def _last_chunk(self, piece: str, token_ids: list[int] | None) -> dict[str, Any]:
        choice = {
            "index": 0,
            "delta": {"content": piece},
            "logprobs": None,
            "finish_reason": self._answer.finish_reason,
            "stop_reason": None,
            "token_ids": token_ids,
        }
        return {**self._common, "choices": [choice]}
