"""CPU memory and disk behind the GPU: where evicted blocks go, and from where they come back.

A block whose last copy leaves the GPU enters the next tier; the least recently used one that finds no room there goes
on to the tier after it, and from the last one it is lost. A block that is loaded stays where it was as well, so it need
not be written again. Writing is taken to cost nobody anything, as it goes on beside the computation; reading takes the
tier's rate, one request after the other.
"""

from collections import OrderedDict
from collections.abc import Sequence

from warmroute.block import Namespace, Tier
from warmroute.engine_model.kv_change import KvChange, KvRemoved, KvStored
from warmroute.engine_model.options import EngineOptions

_NO_NAMESPACE = Namespace()


class TierPool:
    """The blocks of one tier by their hashes, `size` at most, the least recently used first."""

    def __init__(self, tier: Tier, size: int, load_tokens_per_s: float) -> None:
        self.tier, self.size = tier, size
        self.blocks: OrderedDict[int, None] = OrderedDict()
        self._load_tokens_per_s = load_tokens_per_s
        self._busy_until = 0.0

    def load_ends_at(self, now: float, tokens: int) -> float:
        """When a load of that many tokens would end: it comes after those that were asked for before."""
        return max(now, self._busy_until) + tokens / self._load_tokens_per_s

    def load(self, now: float, tokens: int, block_hashes: Sequence[int]) -> float:
        """Load blocks, which are the most recently used ones now, the beginning of the prompt most; when that ends."""
        for block_hash in reversed(block_hashes):
            self.blocks.move_to_end(block_hash)
        self._busy_until = self.load_ends_at(now, tokens)
        return self._busy_until


class SlowerTiers:
    """The tiers that have a size in the options, nearest to the GPU first."""

    def __init__(self, options: EngineOptions) -> None:
        tiers = (
            (Tier.HOST, options.host_blocks, options.host_load_tokens_per_s),
            (Tier.DISK, options.disk_blocks, options.disk_load_tokens_per_s),
        )
        self.pools = [TierPool(tier, size, rate) for tier, size, rate in tiers if size]

    def spill(self, block_hash: int) -> list[KvChange]:
        """Take in what the GPU loses; what that changes. A block enters a tier before it leaves the one above."""
        changes: list[KvChange] = []
        self._enter(0, block_hash, changes)
        return changes

    def pool_of(self, block_hash: int) -> TierPool | None:
        """The fastest tier that holds a block."""
        return next((pool for pool in self.pools if block_hash in pool.blocks), None)

    def clear(self) -> None:
        """Drop everything."""
        for pool in self.pools:
            pool.blocks.clear()

    def check_integrity(self) -> None:
        """Assert that no tier holds more than it has room for."""
        for pool in self.pools:
            assert len(pool.blocks) <= pool.size, f"more blocks than the {pool.tier.name} tier has room for"

    def _enter(self, position: int, block_hash: int, changes: list[KvChange]) -> None:
        if position == len(self.pools):
            return
        pool = self.pools[position]
        if block_hash in pool.blocks:
            pool.blocks.move_to_end(block_hash)
            return
        if len(pool.blocks) == pool.size:
            oldest, _ = pool.blocks.popitem(last=False)
            self._enter(position + 1, oldest, changes)
            changes.append(KvRemoved(oldest, pool.tier))
        pool.blocks[block_hash] = None
        changes.append(KvStored((block_hash,), None, (), 0, _NO_NAMESPACE, pool.tier))
