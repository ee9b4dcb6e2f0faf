"""POST /v1/responses: one message of one text part; the events of OpenAI's stream, in its order."""

from typing import Any

from warmroute.emulator.answer_format.dialect import CREATED, Exchange, Usage, json_bytes, named_sse


class ResponsesFormat:
    """One response without tools, reasoning or state: `store` and `previous_response_id` do not exist here."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._answer = exchange.answers[0]
        self._item_id = f"msg_{exchange.digest}"

    def opening(self, cached_tokens: int) -> bytes:
        started = self._response("in_progress", [], None)
        item = {"id": self._item_id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        return b"".join(
            (
                self._event(0, "response.created", response=started),
                self._event(1, "response.in_progress", response=started),
                self._event(2, "response.output_item.added", output_index=0, item=item),
                self._part_event(3, "response.content_part.added", part=self._part("")),
            )
        )

    def token(self, index: int, position: int) -> bytes:
        delta = self._answer.pieces[position]
        return self._part_event(4 + position, "response.output_text.delta", delta=delta, logprobs=[])

    def closing(self, cached_tokens: int) -> bytes:
        number, text = 4 + len(self._answer.pieces), self._answer.text
        done = self._response(self._status, [self._item()], self._exchange.usage(cached_tokens))
        end = "response.completed" if self._status == "completed" else "response.incomplete"
        return b"".join(
            (
                self._part_event(number, "response.output_text.done", text=text, logprobs=[]),
                self._part_event(number + 1, "response.content_part.done", part=self._part(text)),
                self._event(number + 2, "response.output_item.done", output_index=0, item=self._item()),
                self._event(number + 3, end, response=done),
            )
        )

    def whole(self, cached_tokens: int) -> bytes:
        return json_bytes(self._response(self._status, [self._item()], self._exchange.usage(cached_tokens)))

    @property
    def _status(self) -> str:
        return "completed" if self._answer.finish_reason == "stop" else "incomplete"

    def _event(self, number: int, name: str, **value: Any) -> bytes:
        return named_sse(name, {"sequence_number": number, **value})

    def _part_event(self, number: int, name: str, **value: Any) -> bytes:
        return self._event(number, name, item_id=self._item_id, output_index=0, content_index=0, **value)

    def _part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": None}

    def _item(self) -> dict[str, Any]:
        return {
            "id": self._item_id,
            "type": "message",
            "role": "assistant",
            "status": self._status,
            "content": [self._part(self._answer.text)],
        }

    def _response(self, status: str, output: list[dict[str, Any]], usage: Usage | None) -> dict[str, Any]:
        return {
            "id": f"resp_{self._exchange.digest}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "model": self._exchange.model,
            "output": output,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": None,
            "metadata": None,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "top_p": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "usage": None if usage is None else _usage(usage),
        }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.created_cache_tokens,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
