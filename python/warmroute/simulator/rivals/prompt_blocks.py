"""A prompt in blocks, for rivals that keep a picture of the caches of their own."""

from array import array
from collections.abc import Sequence

from warmroute.block import Namespace, Overlap, hash_blocks

CHUNK_TOKENS = 16
CHARACTERS_PER_TOKEN = 4
CHUNK_CHARACTERS = CHUNK_TOKENS * CHARACTERS_PER_TOKEN
"""Rivals that compare texts get chunks of 16 tokens, which stand for 64 characters: simulated prompts have no text.

What is below a chunk, at most 15 tokens at the end of a match, is lost.
"""

NO_BLOCKS: "array[int]" = array("Q")


class PromptBlocks:
    """The chained hashes of prompts. Those of the last prompt are kept, for it is asked for at each step of its way."""

    def __init__(self) -> None:
        self._token_ids: Sequence[int] | None = None
        self._by_size: dict[int, array[int]] = {}

    def of(self, token_ids: Sequence[int] | None, block_size: int = CHUNK_TOKENS) -> "array[int]":
        """Hashes of the full blocks of this many tokens; none where the prompt is not known. Not to be changed."""
        if token_ids is None:
            return NO_BLOCKS
        if token_ids is not self._token_ids:
            self._token_ids, self._by_size = token_ids, {}
        made = self._by_size.get(block_size)
        if made is None:
            made = self._by_size[block_size] = array("Q")
            made.frombytes(hash_blocks(token_ids, block_size, Namespace()).to_bytes())
        return made


def confirmed(overlap: Overlap) -> int:
    """The blocks that the engine said it holds, without those that our router only expects."""
    return overlap.blocks - overlap.predicted


def leading_hash(token_ids: Sequence[int], most: int) -> int:
    """A hash of the first tokens, at most so many; there is one at least."""
    head = token_ids[:most]
    return hash_blocks(head, len(head), Namespace())[0]
