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

    def is_free(self, block: int) -> bool:
        return self._holders[block] == 0

    def find(self, block_hash: int) -> int | None:
        """The block that has had `block_hash` longest, or None."""
        return self._block_of.get(block_hash)

    def take(self) -> tuple[int, int | None]:
        """Hand out the next free block, and the hash that it loses by that. There must be one (`free_blocks`)."""
        block, _ = self._free.popitem(last=False)
        lost = self._unlabel(block)
        self._holders[block] = 1
        return block, lost

    def hold(self, blocks: Sequence[int]) -> None:
        """Count one more holder for each of `blocks`; those that were free leave the queue."""
        for block in blocks:
            if self._holders[block] == 0:
                del self._free[block]
            self._holders[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Count one holder less for each of a request's `blocks`, in their order in the request.

        They are queued from the tail, so that the end of a prompt is handed out before its beginning. A block that
        cannot be found again goes to the front of the queue: using it costs nobody anything.
        """
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free[block] = None
                if self._hash_of[block] is _NOT_LABELLED:
                    self._free.move_to_end(block, last=False)

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

    def _unlabel(self, block: int) -> int | None:
        block_hash = self._hash_of[block]
        if block_hash is None:
            return None
        self._hash_of[block] = _NOT_LABELLED
        copies = self._copies.get(block_hash, [])
        if self._block_of[block_hash] != block:
            copies.remove(block)
        elif copies:
            self._block_of[block_hash] = copies.pop(0)
        else:
            del self._block_of[block_hash]
        if not copies:
            self._copies.pop(block_hash, None)
        return block_hash

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
