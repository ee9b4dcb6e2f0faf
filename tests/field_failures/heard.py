"""A real index that hears real bytes: what a lane's engine says goes in as frames, a lookup tells what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kv_event.wire_format import encode
from warmroute.block import EngineHash, Namespace, hash_blocks
from warmroute.kv_event.apply import ApplyReport, EventApplier
from warmroute.prefix_index import PrefixIndex

BLOCK_SIZE = 2
BASE = Namespace()


def tokens(*blocks: int, block_size: int = BLOCK_SIZE) -> list[int]:
    """Token ids of one block for each number; equal numbers give equal blocks."""
    return [block for block in blocks for _ in range(block_size)]


@dataclass
class Heard:
    """An index over some lanes. Its integrity is checked after each batch and before each lookup."""

    index: PrefixIndex = field(default_factory=PrefixIndex)
    appliers: dict[int, EventApplier] = field(default_factory=dict)

    def add(self, *lanes: int, prediction_limit: int = 100) -> "Heard":
        for lane in lanes:
            self.index.add_worker(lane, prediction_limit)
            self.appliers[lane] = EventApplier(self.index, lane)
        return self

    def hear(self, lane: int, *events: Any) -> ApplyReport:
        """One batch with these events."""
        return self.hear_bytes(lane, encode(list(events), 1700000000.0, 0))

    def hear_bytes(self, lane: int, payload: bytes) -> ApplyReport:
        report = self.appliers[lane].apply(payload)
        self.index.check_integrity()
        return report

    def blocks(
        self,
        token_ids: Sequence[int],
        namespace: Namespace = BASE,
        block_size: int = BLOCK_SIZE,
        keys: Sequence[bytes | None] | None = None,
        now: float = 0.0,
    ) -> dict[int, int]:
        """The leading blocks of a prompt on each lane that has any."""
        self.index.check_integrity()
        found = self.index.match(hash_blocks(token_ids, block_size, namespace, keys), now)
        return {lane: overlap.blocks for lane, overlap in found.items()}


def bytes_hashes(*numbers: int, length: int = 32) -> list[EngineHash]:
    """Digests of a length."""
    return [number.to_bytes(length) for number in numbers]
