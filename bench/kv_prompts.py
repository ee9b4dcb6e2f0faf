"""What the publishers of bench/kv_ingest.py announce: prompts in frames of vLLM, the same for whoever listens."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from bench.prompts import Prompt

from warmroute.block import Namespace, hash_blocks

BLOCK_SIZE = 16
FRAME_BLOCKS = 32
PROMPT_FRAMES = 32
VOCABULARY_BITS = 17

PLAIN = Namespace()


@dataclass(frozen=True, slots=True)
class Announcements:
    """Each of `publishers` announces `prompts` of 1,024 blocks, every tenth of them as the others do, and a probe.

    The probe is a prompt of one frame, the last that a publisher announces: who knows it has taken in everything.
    """

    publishers: int
    prompts: int
    seed: int

    @property
    def frames(self) -> int:
        """Of one publisher."""
        return self.prompts * PROMPT_FRAMES + 1

    @property
    def blocks(self) -> int:
        """Of one publisher."""
        return self.frames * FRAME_BLOCKS

    def announced(self, publisher: int) -> Iterator[Prompt]:
        """In order, the probe last."""
        for place in range(self.prompts):
            shared = place % 10 == 0
            yield self._prompt(place if shared else self._own(publisher, place), shared, publisher, PROMPT_FRAMES)
        yield self.probe(publisher)

    def probe(self, publisher: int) -> Prompt:
        return self._prompt(self._own(publisher, self.prompts), False, publisher, 1)

    def _own(self, publisher: int, place: int) -> int:
        return (publisher + 1) * (self.prompts + 1) + place

    def _prompt(self, number: int, shared: bool, publisher: int, frames: int) -> Prompt:
        holders = tuple(range(self.publishers)) if shared else (publisher,)
        return Prompt(self.seed, number, frames * FRAME_BLOCKS, BLOCK_SIZE, holders)


def vocabulary_ids(prompt: Prompt) -> "array[int]":
    """The prompt's token ids, cut to those of a vocabulary of 131,072."""
    mask = (1 << VOCABULARY_BITS) - 1
    return array("I", [each & mask for each in prompt.token_ids()])


def payloads(prompt: Prompt) -> Iterator[bytes]:
    """The prompt as batches of one event each, as vLLM 0.33 writes it: maps, hashes as integers.

    Equal prefixes have equal hashes on every publisher, which not every engine does, but every indexer can take.
    """
    ids = vocabulary_ids(prompt).tolist()
    names = hash_blocks(ids, BLOCK_SIZE, PLAIN).to_list()
    for start in range(0, prompt.blocks, FRAME_BLOCKS):
        end = start + FRAME_BLOCKS
        event = {
            "type": "BlockStored",
            "block_hashes": names[start:end],
            "parent_block_hash": names[start - 1] if start else None,
            "token_ids": ids[start * BLOCK_SIZE : end * BLOCK_SIZE],
            "block_size": BLOCK_SIZE,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
        }
        yield msgspec.msgpack.encode([1_700_000_000.0, [event], 0])
