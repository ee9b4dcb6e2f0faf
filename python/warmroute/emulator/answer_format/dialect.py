"""What the dialects have in common.

Every byte depends on the request, the answer and the number of cached tokens alone: the id is made of the prompt, the
time of creation is a constant. Two engines that had the same part of a prompt cached answer with the same bytes. Fields
and their order are those of vLLM 0.32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from warmroute.emulator.answer import Answer

CREATED = 1_700_000_000
"""Seconds since 1970 of every answer's creation, so that equal answers are equal bytes."""

json_bytes = msgspec.json.encode
_HOLE = "\ue000\ue001"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request: all prompts, what of them came from the cache or went into it, all answers."""

    prompt_tokens: int
    cached_tokens: int
    created_cache_tokens: int
    completion_tokens: int

    def openai(self, **details: int | None) -> dict[str, Any]:
        """As in completions and chat; the cached tokens are there also where there are none."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens, **details},
        }


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answers, one per prompt. `block_size` is None where no prefixes are cached."""

    model: str
    digest: str
    prompts: Sequence[Sequence[int]]
    answers: Sequence[Answer]
    block_size: int | None
    include_usage: bool = False
    return_token_ids: bool = False

    def usage(self, cached_tokens: int) -> Usage:
        """The whole exchange's usage, with `cached_tokens` found in the cache."""
        size = self.block_size
        kept_tokens = 0 if size is None else sum(len(ids) // size * size for ids in self.prompts)
        return Usage(
            prompt_tokens=sum(map(len, self.prompts)),
            cached_tokens=cached_tokens,
            created_cache_tokens=kept_tokens - cached_tokens,
            completion_tokens=sum(len(answer.token_ids) for answer in self.answers),
        )


class AnswerFormat(Protocol):
    """One dialect, for one exchange. The parts of a stream, in order: opening, tokens, closing."""

    def opening(self, cached_tokens: int) -> bytes:
        """What a stream begins with, sent with the first token."""

    def token(self, index: int, position: int) -> bytes:
        """Token `position` of answer `index`."""

    def closing(self, cached_tokens: int) -> bytes:
        """What a stream ends with."""

    def whole(self, cached_tokens: int) -> bytes:
        """The body of an answer that is not streamed."""


class PieceTemplate:
    """JSON text around one string, encoded once: a token costs a concatenation instead of an encoding.

    `value` holds `PieceTemplate.HOLE` where the string goes.
    """

    HOLE = _HOLE

    def __init__(self, value: Any) -> None:
        self._head, self._tail = json_bytes(value).split(json_bytes(_HOLE))

    def fill(self, piece: str) -> bytes:
        """The JSON text with `piece` in the hole."""
        return self._head + json_bytes(piece) + self._tail


def sse(data: bytes) -> bytes:
    """One server-sent event."""
    return b"data: " + data + b"\n\n"


def named_sse(name: str, value: dict[str, Any]) -> bytes:
    """One server-sent event with a name, which is also the value's type."""
    return b"event: " + name.encode() + b"\ndata: " + json_bytes({"type": name, **value}) + b"\n\n"
