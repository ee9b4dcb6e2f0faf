"""Mooncake's format: prompts as names of blocks, one JSON object a line.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353, 2354]}

`timestamp` counts milliseconds; an id stands for 512 tokens in Mooncake's own traces (FAST25-release/README.md).
"""

from collections.abc import Sequence

import msgspec

from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.request import BlockIds, BrokenLine, LoggedRequest

BLOCK_TOKENS = 512
LONGEST = 2**31
"""Tokens: a prompt, or an answer, of more is a mistake."""


class _Line(msgspec.Struct, frozen=True):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int | str]


class MooncakeReader:
    """Reads one line after the other; an id stands for `block_tokens` tokens."""

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        self._block_tokens = block_tokens
        self._decoder = msgspec.json.Decoder(_Line)

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The request of a line. Raises BrokenLine."""
        try:
            fields = self._decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BrokenLine(f"it is not as Mooncake's format says: {error}") from error
        prompt = checked(BlockIds(fields.hash_ids, self._block_tokens, fields.input_length))
        check_time_and_answer(fields.timestamp, fields.output_length)
        return [LoggedRequest(fields.timestamp / 1e3, prompt, fields.input_length, max(1, fields.output_length))]

    def rest(self) -> Sequence[LoggedRequest]:
        """Nothing is kept back."""
        return ()


def fits(fields: JsonObject) -> bool:
    """Whether a line's object is of this format."""
    return "hash_ids" in fields and "input_length" in fields and "block_size" not in fields


def checked(prompt: BlockIds) -> BlockIds:
    """The prompt, if its ids can be those of its tokens. Raises BrokenLine."""
    if not 1 <= prompt.tokens <= LONGEST:
        raise BrokenLine(f"input_length must lie between 1 and {LONGEST}, not {prompt.tokens}")
    most = -(-prompt.tokens // prompt.block_tokens)
    if len(prompt.ids) > most:
        raise BrokenLine(
            f"it has {len(prompt.ids)} hash_ids, but {prompt.tokens} tokens are {most} blocks of"
            f" {prompt.block_tokens}; --log-block-size says how many tokens a block has"
        )
    return prompt


def check_time_and_answer(timestamp_ms: float, output_length: int) -> None:
    """Raises BrokenLine for a time or a length that cannot be."""
    if not abs(timestamp_ms) < 1e15:
        raise BrokenLine("its timestamp is beyond all clocks")
    if not 0 <= output_length <= LONGEST:
        raise BrokenLine(f"output_length must lie between 0 and {LONGEST}, not {output_length}")
