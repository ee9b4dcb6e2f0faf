"""What `warmroute anonymize` writes: Mooncake's keys, and some more that its readers pass over.

    {"timestamp":0,"input_length":5210,"output_length":88,"hash_ids":[1187...,...],"block_size":16,"session":0}

timestamp: milliseconds since the first request (with --keep-times: since 1970). hash_ids: of each block of `block_size`
tokens, the last one may be shorter; fewer where the rest is not known. session: the number of the conversation, where
the log named one. duration: milliseconds until the answer was complete, where that was logged. estimated: the tokens
were told from the text's bytes. output_guessed: the answer's length was not logged. max_tokens: the client's limit.
"""

from collections.abc import Sequence

import msgspec

from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.mooncake import LONGEST, check_time_and_answer, checked
from warmroute.request_log.request import BlockIds, BrokenLine, LoggedRequest


class AnonymousLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request, as it stands in the file."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]
    block_size: int
    session: int | None = None
    duration: float | None = None
    max_tokens: int | None = None
    estimated: bool = False
    output_guessed: bool = False


class AnonymizedReader:
    """Reads one line after the other."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(AnonymousLine)

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The request of a line. Raises BrokenLine."""
        try:
            fields = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BrokenLine(f"it is not what 'warmroute anonymize' writes: {error}") from error
        if not 1 <= fields.block_size <= LONGEST:
            raise BrokenLine(f"block_size must be at least 1, not {fields.block_size}")
        ids: list[int | str] = [*fields.hash_ids]
        prompt = checked(BlockIds(ids, fields.block_size, fields.input_length, fields.estimated))
        check_time_and_answer(fields.timestamp, fields.output_length)
        return [_request(fields, prompt)]

    def rest(self) -> Sequence[LoggedRequest]:
        """Nothing is kept back."""
        return ()


def fits(fields: JsonObject) -> bool:
    """Whether a line's object is of this format."""
    return "hash_ids" in fields and "input_length" in fields and "block_size" in fields


def _request(fields: AnonymousLine, prompt: BlockIds) -> LoggedRequest:
    at_s = fields.timestamp / 1e3
    lasted = fields.duration if fields.duration is not None and 0 <= fields.duration < 1e12 else None
    return LoggedRequest(
        at_s=at_s,
        prompt=prompt,
        prompt_tokens=None if fields.estimated else fields.input_length,
        answer_tokens=max(1, fields.output_length),
        max_tokens=fields.max_tokens,
        session=None if fields.session is None else str(fields.session),
        ended_at_s=None if lasted is None else at_s + lasted / 1e3,
        answer_guessed=fields.output_guessed,
    )
