"""POST /v1/completions as vLLM answers it."""

from typing import Any

from warmroute.emulator.answer_format.dialect import CREATED, Exchange, PieceTemplate, json_bytes, sse


class CompletionFormat:
    """Text completions; one choice per prompt."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._common = {
            "id": f"cmpl-{exchange.digest}",
            "object": "text_completion",
            "created": CREATED,
            "model": exchange.model,
        }
        self._templates = [self._template(index) for index in range(len(exchange.answers))]

    def opening(self, cached_tokens: int) -> bytes:
        return b""

    def token(self, index: int, position: int) -> bytes:
        answer = self._exchange.answers[index]
        last = position == len(answer.pieces) - 1
        if not (last or self._exchange.return_token_ids):
            return sse(self._templates[index].fill(answer.pieces[position]))
        choice = self._choice(index, answer.pieces[position], answer.finish_reason if last else None)
        if self._exchange.return_token_ids:
            choice["token_ids"] = [answer.token_ids[position]]
            choice["prompt_token_ids"] = list(self._exchange.prompts[index]) if position == 0 else None
        return sse(json_bytes({**self._common, "choices": [choice]}))

    def closing(self, cached_tokens: int) -> bytes:
        done = sse(b"[DONE]")
        if not self._exchange.include_usage:
            return done
        usage = self._exchange.usage(cached_tokens).openai()
        return sse(json_bytes({**self._common, "choices": [], "usage": usage})) + done

    def whole(self, cached_tokens: int) -> bytes:
        usage = self._exchange.usage(cached_tokens).openai(created_cache_tokens=None, multimodal_tokens=None)
        body = {
            **self._common,
            "choices": [self._whole_choice(index) for index in range(len(self._exchange.answers))],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": {**usage, "completion_tokens_details": None},
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }
        return json_bytes(body)

    def _whole_choice(self, index: int) -> dict[str, Any]:
        answer, with_ids = self._exchange.answers[index], self._exchange.return_token_ids
        return {
            "index": index,
            "text": answer.text,
            "logprobs": None,
            "finish_reason": answer.finish_reason,
            "stop_reason": None,
            "token_ids": answer.token_ids if with_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": list(self._exchange.prompts[index]) if with_ids else None,
            "routed_experts": None,
        }

    def _choice(self, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
        }

    def _template(self, index: int) -> PieceTemplate:
        choice = self._choice(index, PieceTemplate.HOLE, None)
        return PieceTemplate({**self._common, "choices": [choice]})
