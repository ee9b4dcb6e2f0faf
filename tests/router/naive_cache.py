"""The obvious cache of an engine that serves one request at a time: whole prefixes in a list, oldest first.

The definition of what `warmroute.cache_model` must come to without ever seeing an answer's tokens.
"""

from collections.abc import Sequence


class NaiveCache:
    """`capacity` blocks of `block_size` tokens; each is named by all tokens up to its end."""

    def __init__(self, capacity: int, block_size: int) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self.blocks: list[tuple[int, ...]] = []

    def serve(self, prompt: Sequence[int], answer: Sequence[int]) -> int:
        """Answer a prompt; how many of its tokens were cached."""
        size = self.block_size
        found = 0
        while (found + 1) * size < len(prompt) and tuple(prompt[: (found + 1) * size]) in self.blocks:
            found += 1
        # The last token of an answer is never computed.
        computed = [*prompt, *answer][:-1]
        full = [tuple(computed[: end * size]) for end in range(1, len(computed) // size + 1)]
        self.blocks = [block for block in self.blocks if block not in full] + full[::-1]
        partial = 1 if len(computed) % size else 0
        self.blocks = self.blocks[max(0, len(self.blocks) + partial - self.capacity) :]
        return found * size
