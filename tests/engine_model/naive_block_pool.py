"""The readable twin of `BlockPool`: a list of records, searched from end to end."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class NaiveBlock:
    """One block; `labelled_at` orders blocks of equal hash by the time they got it."""

    number: int
    holders: int = 0
    block_hash: int | None = None
    labelled_at: int = 0


class NaiveBlockPool:
    """A queue of free blocks as a plain list, a hash lookup as a search."""

    def __init__(self, num_blocks: int) -> None:
        self.blocks = [NaiveBlock(number) for number in range(num_blocks)]
        self.queue = list(range(num_blocks))
        self.labellings = 0

    @property
    def free_blocks(self) -> int:
        return len(self.queue)

    def find(self, block_hash: int) -> int | None:
        having = [block for block in self.blocks if block.block_hash == block_hash]
        return min(having, key=lambda block: block.labelled_at).number if having else None

    def take(self) -> tuple[int, int | None]:
        block = self.blocks[self.queue.pop(0)]
        lost, block.block_hash = block.block_hash, None
        block.holders = 1
        return block.number, lost

    def hold(self, blocks: Sequence[int]) -> None:
        for number in blocks:
            self.blocks[number].holders += 1
            self.queue = [queued for queued in self.queue if queued != number]

    def release(self, blocks: Sequence[int]) -> None:
        for number in reversed(blocks):
            self.blocks[number].holders -= 1
            if self.blocks[number].holders == 0:
                self.queue.insert(0 if self.blocks[number].block_hash is None else len(self.queue), number)

    def label(self, number: int, block_hash: int) -> None:
        self.labellings += 1
        self.blocks[number].block_hash = block_hash
        self.blocks[number].labelled_at = self.labellings

    def unlabel_all(self) -> None:
        for block in self.blocks:
            block.block_hash = None

    def labels(self) -> dict[int, int]:
        hashes = [block.block_hash for block in self.blocks if block.block_hash is not None]
        return {block_hash: hashes.count(block_hash) for block_hash in hashes}
