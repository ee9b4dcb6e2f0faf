"""Physical KV blocks: who holds them, which are free, and which can be found again by their hash.

The semantics are those of vLLM's `v1/core/block_pool.py`: a block without a holder stays findable until it is handed
out again; free blocks are handed out from the front of a queue; equal contents are not merged, so one hash may be on
several blocks. (vLLM keeps one block back as the null block; this pool does not.)
"""

from collections import OrderedDict
from collections.abc import Sequence

_NOT_LABELLED = None


class BlockPool:
    """`num_blocks` blocks, numbered from 0."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._holders = [0] * num_blocks
        self._hash_of: list[int | None] = [_NOT_LABELLED] * num_blocks
        # An OrderedDict, not a dict: it takes from the front and adds to the front in constant time.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(num_blocks))
        self._block_of: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}

    @property
    def free_blocks(self) -> int:
        """Blocks without a holder, findable or not."""
        return len(self._free)

    def free_among(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` nobody holds."""
        holders = self._holders
        return sum([not holders[block] for block in blocks])

    def find(self, block_hash: int) -> int | None:
        """The block that has had `block_hash` longest, or None."""
        return self._block_of.get(block_hash)

    def find_leading(self, block_hashes: Sequence[int]) -> list[int]:
        """The blocks of the first hashes, up to one that no block has."""
        blocks, find = list[int](), self._block_of.get
        for block_hash in block_hashes:
            block = find(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def take(self, count: int = 1) -> tuple[list[int], list[int]]:
        """Hand out free blocks, of which there must be so many, and the hashes that they lose by that."""
        pop, hash_of, holders = self._free.popitem, self._hash_of, self._holders
        blocks, lost = list[int](), list[int]()
        for _ in range(count):
            block, _ = pop(last=False)
            block_hash = hash_of[block]
            if block_hash is not None:
                self._unlabel(block, block_hash)
                lost.append(block_hash)
            holders[block] = 1
            blocks.append(block)
        return blocks, lost

    def hold(self, blocks: Sequence[int]) -> None:
        """Count one more holder for each of `blocks`; those that were free leave the queue."""
        holders, free = self._holders, self._free
        for block in blocks:
            if holders[block] == 0:
                del free[block]
            holders[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Count one holder less for each of a request's `blocks`, in their order in the request.

        They are queued from the tail, so that the end of a prompt is handed out before its beginning. A block that
        cannot be found again goes to the front of the queue: using it costs nobody anything.
        """
        holders, free, hash_of = self._holders, self._free, self._hash_of
        for block in reversed(blocks):
            holders[block] -= 1
            if holders[block] == 0:
                free[block] = None
                if hash_of[block] is _NOT_LABELLED:
                    free.move_to_end(block, last=False)

    def label(self, block: int, block_hash: int) -> None:
        """From now on `block` can be found by `block_hash`."""
        self._hash_of[block] = block_hash
        if block_hash in self._block_of:
            self._copies.setdefault(block_hash, []).append(block)
        else:
            self._block_of[block_hash] = block

    def unlabel_all(self) -> None:
        """Forget every hash; holders and queue stay as they are."""
        self._hash_of = [_NOT_LABELLED] * self.num_blocks
        self._block_of.clear()
        self._copies.clear()

    def labels(self) -> dict[int, int]:
        """How many blocks have each hash."""
        return {block_hash: 1 + len(self._copies.get(block_hash, ())) for block_hash in self._block_of}

    def _unlabel(self, block: int, block_hash: int) -> None:
        self._hash_of[block] = _NOT_LABELLED
        copies = self._copies.get(block_hash)
        if copies is None:
            del self._block_of[block_hash]
            return
        if self._block_of[block_hash] != block:
            copies.remove(block)
        else:
            self._block_of[block_hash] = copies.pop(0)
        if not copies:
            del self._copies[block_hash]

    def check_integrity(self, held: Sequence[Sequence[int]]) -> None:
        """Assert that holders, queue and labels agree with each other and with the block lists in `held`."""
        counted = [0] * self.num_blocks
        for blocks in held:
            assert len(set(blocks)) == len(blocks), "a request holds a block twice"
            for block in blocks:
                counted[block] += 1
        assert counted == self._holders, "holders differ from the block lists of the requests"
        assert set(self._free) == {b for b in range(self.num_blocks) if counted[b] == 0}, "free queue is not the rest"
        labelled: dict[int, list[int]] = {}
        for block, block_hash in enumerate(self._hash_of):
            if block_hash is not None:
                labelled.setdefault(block_hash, []).append(block)
        found = {h: sorted([b, *self._copies.get(h, ())]) for h, b in self._block_of.items()}
        assert found == labelled, "hashes do not lead to the blocks that have them"
        assert set(self._copies) <= set(self._block_of), "copies of a hash that no block has"
