"""The prompts that are stored and looked up: the same ones, from one seed, on whichever side is measured.

Standard library only, because this runs in the environment of what is measured beside us too.
"""

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """Random token ids in full blocks, and who holds them. `number` and the seed make it what it is."""

    seed: int
    number: int
    blocks: int
    block_size: int
    holders: tuple[int, ...]

    def token_ids(self) -> "array[int]":
        """Unsigned 32-bit."""
        return array("I", self._rng("ids").randbytes(4 * self.blocks * self.block_size))

    def names(self) -> "array[int]":
        """What an engine calls the blocks: unsigned 64-bit, the same for every holder."""
        return array("Q", self._rng("names").randbytes(8 * self.blocks))

    def _rng(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/{self.number}/{what}")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers 0 to `workers` - 1, each holding `own` prompts that nobody else has and `shared` ones that all have."""

    workers: int
    own: int
    shared: int
    blocks: int
    seed: int
    block_size: int = 16

    @property
    def blocks_per_worker(self) -> int:
        return (self.own + self.shared) * self.blocks

    @property
    def pairs(self) -> int:
        """Resident blocks, counted once per worker that holds them."""
        return self.workers * self.blocks_per_worker

    def prompts(self) -> Iterator[Prompt]:
        """The shared ones first."""
        everybody = tuple(range(self.workers))
        holders = [everybody] * self.shared + [(worker,) for worker in range(self.workers) for _ in range(self.own)]
        for number, held_by in enumerate(holders):
            yield Prompt(self.seed, number, self.blocks, self.block_size, held_by)

    def asked(self, kind: str, at_most: int) -> list[Prompt]:
        """Prompts to look up: `shared` (held by all) or `disjoint` (held by one), spread over the workers."""
        found = [prompt for prompt in self.prompts() if (len(prompt.holders) > 1) == (kind == "shared")]
        return found[:: max(1, -(-len(found) // at_most))]


def chunks(prompt: Prompt, blocks: int) -> Iterator[tuple[int | None, "array[int]", "array[int]"]]:
    """The prompt as store events of so many blocks: parent's name, names, token ids."""
    names, ids = prompt.names(), prompt.token_ids()
    for start in range(0, prompt.blocks, blocks):
        end = start + blocks
        parent = names[start - 1] if start else None
        yield parent, names[start:end], ids[start * prompt.block_size : end * prompt.block_size]
