"""A log without its texts: who reads it learns lengths, times and which prompts begin alike, and nothing else.

An id is BLAKE2b of a block's chained hash under a key that is made of the salt. The chained hash alone would not do:
whoever guesses a text could compute it and look whether it is there. Two logs that are anonymized with the same salt
have the same ids for the same prompts.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from warmroute.request_log.anonymized import AnonymousLine
from warmroute.request_log.blocks import BlockedRequest

# 63 bits: what every language's signed integers hold.
_ID_MASK = 2**63 - 1
_GUESS = 256
"""Tokens of an answer where nothing at all tells of answers."""


@dataclass(slots=True)
class Anonymizer:
    """Makes lines of requests. It keeps the numbers of the sessions it has seen, and nothing of prompts.

    salt: what makes ids unguessable; it must not become known with the file. keep_times: times stay those since 1970.
    """

    salt: bytes
    keep_times: bool = False
    _begin_ms: int | None = None
    _sessions: dict[str, int] = field(default_factory=dict)
    _answers: int = 0
    _answer_tokens: int = 0

    def lines(self, requests: Iterable[BlockedRequest]) -> Iterator[bytes]:
        """A line for each request, in their order."""
        key = blake2b(self.salt, digest_size=32).digest()
        for request in requests:
            yield msgspec.json.encode(self._line(request, key)) + b"\n"

    def _line(self, request: BlockedRequest, key: bytes) -> AnonymousLine:
        at_ms = round(request.at_s * 1e3)
        if self._begin_ms is None:
            self._begin_ms = 0 if self.keep_times else at_ms
        answer_tokens, guessed = self._answer(request)
        lasted_s = None if request.ended_at_s is None else request.ended_at_s - request.at_s
        return AnonymousLine(
            timestamp=at_ms - self._begin_ms,
            input_length=request.prompt_tokens,
            output_length=answer_tokens,
            hash_ids=_ids(request.blocks, key),
            block_size=request.block_tokens,
            session=self._session(request.session),
            duration=None if lasted_s is None else round(lasted_s * 1e3),
            max_tokens=request.max_tokens,
            estimated=request.estimated,
            output_guessed=guessed,
        )

    def _answer(self, request: BlockedRequest) -> tuple[int, bool]:
        """The answer's tokens, and whether they are a guess: the client's limit, else the mean of those before."""
        if request.answer_tokens is not None:
            if not request.answer_guessed:
                self._answers += 1
                self._answer_tokens += request.answer_tokens
            return max(1, request.answer_tokens), request.answer_guessed
        if request.max_tokens:
            return request.max_tokens, True
        return (max(1, round(self._answer_tokens / self._answers)) if self._answers else _GUESS), True

    def _session(self, name: str | None) -> int | None:
        return None if name is None else self._sessions.setdefault(name, len(self._sessions))


def _ids(blocks: "array[int]", key: bytes) -> list[int]:
    data = blocks.tobytes()
    return [
        int.from_bytes(blake2b(data[at : at + 8], digest_size=8, key=key).digest(), "little") & _ID_MASK
        for at in range(0, len(data), 8)
    ]
