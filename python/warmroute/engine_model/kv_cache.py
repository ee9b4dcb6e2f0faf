"""The blocks of requests: prefix lookup, growth, release, and the record of what changed."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.block import Namespace, Tier, hash_blocks
from warmroute.engine_model.block_pool import BlockPool
from warmroute.engine_model.kv_change import KvChange, KvCleared, KvRemoved, KvStored
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import LiveRequest, Loading
from warmroute.engine_model.slower_tiers import SlowerTiers, TierPool
from warmroute.engine_model.step_time import prefill_s


@dataclass(frozen=True, slots=True)
class Load:
    """Blocks that come from one slower tier, one after the other in a prompt."""

    pool: TierPool
    block_hashes: Sequence[int]


class KvCache:
    """Gives blocks to requests and takes them back (vLLM's `kv_cache_manager.py` for one full-attention group).

    A block is labelled, and announced, in the step that computes its last token. A prompt that is cached to its
    end has its last block computed anew, which makes a second block of the same hash: vLLM does not merge them,
    and neither does this cache.

    With `keeps_partial_blocks` the last block of a request stays announced although it is not full, as in TensorRT-LLM.
    It is never found: only full blocks are looked for.
    """

    def __init__(self, options: EngineOptions, keeps_partial_blocks: bool = False) -> None:
        self._options = options
        self._pool = BlockPool(options.num_blocks)
        self._tiers = SlowerTiers(options)
        self._keeps_partial_blocks = keeps_partial_blocks
        self._block_size = options.block_size
        self._prefix_caching = options.enable_prefix_caching
        self._changes: list[KvChange] = []

    @property
    def usage(self) -> float:
        """Share of the blocks that a request holds; cached blocks without a holder count as free, as in vLLM."""
        return self.usage_with(0)

    def usage_with(self, more: int) -> float:
        """The same once so many free blocks more are held."""
        return 1 - (self._pool.free_blocks - more) / self._pool.num_blocks

    def cached_prefix(self, live: LiveRequest) -> list[int]:
        """Blocks that already hold the beginning of `live`; never its last token, which must be computed."""
        if not self._prefix_caching:
            return []
        return self._pool.find_leading(live.block_hashes[: (live.known_tokens - 1) // self._block_size])

    def has_room(self, live: LiveRequest, prefix: Sequence[int]) -> bool:
        """Whether there are blocks for `live`, of which `prefix` holds the beginning.

        For all its known tokens, although later chunks get theirs later: otherwise prompts that are computed in chunks
        would push each other out (vLLM's `scheduler_reserve_full_isl`, on by default).
        """
        fresh, free = self._blocks_for(live.known_tokens) - len(prefix), self._pool.free_blocks
        return fresh <= free and fresh + self._pool.free_among(prefix) <= free

    def loads(self, live: LiveRequest, found: int, now: float) -> list[Load]:
        """What to load of `live` behind its first `found` blocks, which the GPU holds, from the tiers that hold it.

        As far as each stretch from one tier comes sooner than it would be computed.
        """
        loads: list[Load] = []
        size = self._block_size
        wanted = live.block_hashes[found : (live.known_tokens - 1) // size] if self._tiers.pools else ()
        start = 0
        while start < len(wanted) and (pool := self._tiers.pool_of(wanted[start])) is not None:
            end = start + 1
            while end < len(wanted) and self._tiers.pool_of(wanted[end]) is pool:
                end += 1
            tokens = (end - start) * size
            if pool.load_ends_at(now, tokens) - now >= prefill_s(self._options, (found + start) * size, tokens):
                break
            loads.append(Load(pool, wanted[start:end]))
            start = end
        return loads

    def begin_loads(self, live: LiveRequest, prefix: Sequence[int], loads: Sequence[Load], now: float) -> None:
        """Give `live` the blocks in `prefix` and new ones that are loaded; there must be room (`has_room`)."""
        # They are counted as used before the new blocks push others into their tiers.
        live.loading = self._load(loads, now)
        self._hold(live, prefix)
        self._take(live, sum(len(load.block_hashes) for load in loads))
        live.computed = len(live.blocks) * self._block_size

    def end_loads(self, live: LiveRequest) -> None:
        """What was loaded for `live` is there, and can be found by others."""
        live.loading = None
        self._label(live, len(live.blocks))

    def admit(self, live: LiveRequest, prefix: Sequence[int], tokens: int) -> None:
        """Give `live` the blocks in `prefix` and room for `tokens` more; there must be room (`has_room`)."""
        self._hold(live, prefix)
        room = self.grow(live, tokens)
        assert room, "admitted without blocks for it"

    def grow(self, live: LiveRequest, tokens: int) -> bool:
        """Make room for the next `tokens` of `live` and count them as computed; False if blocks lack."""
        computed = live.computed + tokens
        fresh = self._blocks_for(computed) - len(live.blocks)
        if fresh > 0:
            if fresh > self._pool.free_blocks:
                return False
            self._take(live, fresh)
        live.computed = computed
        if self._prefix_caching and computed // self._block_size > live.labelled_blocks:
            self._label(live, computed // self._block_size)
        return True

    def affordable(self, lives: Sequence[LiveRequest], iterations: int) -> int:
        """How many iterations, `iterations` at most, there are blocks for; the first has got its own already."""
        free = self._pool.free_blocks
        per_live = -(-(iterations - 1) // self._block_size)
        if per_live * len(lives) <= free or self._lacking(lives, iterations) <= free:
            return iterations
        return bisect_right(range(1, iterations + 1), free, key=lambda count: self._lacking(lives, count))

    def first_missing(self, live: LiveRequest) -> int | None:
        """The hash of the first full block that would have to be computed for `live`; None where there is none."""
        found, wanted = len(self.cached_prefix(live)), (live.known_tokens - 1) // self._block_size
        return live.block_hashes[found] if self._prefix_caching and found < wanted else None

    def will_label(self, lives: Sequence[LiveRequest], iterations: int, block_hash: int) -> bool:
        """Whether one of `lives` comes to hold a block of that hash in further `iterations`."""
        return any(
            block_hash in live.block_hashes[live.labelled_blocks : (live.computed + iterations) // self._block_size]
            for live in lives
        )

    def _lacking(self, lives: Sequence[LiveRequest], iterations: int) -> int:
        size, further = self._block_size, iterations - 1
        return sum([-(-(live.computed + further) // size) - len(live.blocks) for live in lives])

    def release(self, live: LiveRequest) -> None:
        """Take all blocks back; what was labelled stays findable until its block is handed out again."""
        if self._keeps_partial_blocks and live.loading is None:
            self._label_partial(live)
        self._pool.release(live.blocks)
        live.blocks = []
        live.labelled_blocks = 0
        live.computed = 0
        live.loading = None

    def reset(self) -> bool:
        """Drop the prefix cache; False, with nothing done, while a request holds a block."""
        if self._pool.free_blocks != self._pool.num_blocks:
            return False
        self._pool.unlabel_all()
        self._tiers.clear()
        self._changes.append(KvCleared())
        return True

    def take_changes(self) -> list[KvChange]:
        """What changed since the last call, oldest first."""
        changes, self._changes = self._changes, []
        return changes

    def labels(self, tier: Tier = Tier.DEVICE) -> dict[int, int]:
        """How many blocks of a tier have each hash: what a listener to every change must believe."""
        if tier is Tier.DEVICE:
            return self._pool.labels()
        return {block_hash: 1 for pool in self._tiers.pools if pool.tier is tier for block_hash in pool.blocks}

    def check_integrity(self, holders: Sequence[LiveRequest]) -> None:
        """Assert that the pool agrees with `holders`, and each holder with itself."""
        self._pool.check_integrity([live.blocks for live in holders])
        for live in holders:
            assert len(live.blocks) == self._blocks_for(live.computed), "blocks do not fit the computed tokens"
            expected = live.computed // self._block_size if self._prefix_caching else 0
            if live.loading is not None:
                assert live.labelled_blocks < expected, "a load of nothing"
                continue
            assert live.labelled_blocks == expected, "a full block without a hash, or a hash on a partial block"
        self._tiers.check_integrity()

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._block_size)

    def _load(self, loads: Sequence[Load], now: float) -> Loading:
        until, tokens = now, dict[Tier, int]()
        for load in loads:
            count = len(load.block_hashes) * self._block_size
            until = max(until, load.pool.load(now, count, load.block_hashes))
            tokens[load.pool.tier] = tokens.get(load.pool.tier, 0) + count
        return Loading(until, tokens)

    def _hold(self, live: LiveRequest, prefix: Sequence[int]) -> None:
        self._pool.hold(prefix)
        live.blocks.extend(prefix)
        live.labelled_blocks = len(prefix)
        live.computed = len(prefix) * self._block_size

    def _take(self, live: LiveRequest, count: int) -> None:
        blocks, lost = self._pool.take(count)
        live.blocks += blocks
        for block_hash in lost:
            if self._tiers.pools and self._pool.find(block_hash) is None:
                self._changes += self._tiers.spill(block_hash)
            self._changes.append(KvRemoved(block_hash))

    def _label(self, live: LiveRequest, full_blocks: int) -> None:
        start, size = live.labelled_blocks, self._block_size
        hashes = live.block_hashes[start:full_blocks]
        for block, block_hash in zip(live.blocks[start:full_blocks], hashes, strict=True):
            self._pool.label(block, block_hash)
        parent = live.block_hashes[start - 1] if start else None
        token_ids = live.token_ids[start * size : full_blocks * size]
        self._changes.append(KvStored(hashes, parent, token_ids, size, live.request.namespace))
        live.labelled_blocks = full_blocks

    def _label_partial(self, live: LiveRequest) -> None:
        full, size = live.labelled_blocks, self._block_size
        if not self._prefix_caching or len(live.blocks) == full:
            return
        token_ids = live.token_ids[full * size : live.computed]
        parent = live.block_hashes[full - 1] if full else None
        (block_hash,) = hash_blocks(token_ids, len(token_ids), Namespace(salt=f"partial block after {parent}"))
        self._pool.label(live.blocks[full], block_hash)
        self._changes.append(KvStored([block_hash], parent, token_ids, size, live.request.namespace))
