"""Events -> the prefix index, in the order in which the engine said them.

bytes that an engine publishes  -> EventApplier     in Rust (the crate `kv-event`), off the interpreter
messages read elsewhere         -> apply_batch      what polled engines say; the readable form of the same meaning
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warmroute import _native
from warmroute._native import ApplyReport
from warmroute.block import EngineHash, Namespace, Tier
from warmroute.errors import UndecodableFrame
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch
from warmroute.prefix_index import PrefixIndex, StoreResult

__all__ = ["ApplyReport", "BlockIndex", "EngineMemory", "EventApplier", "apply_batch"]

# Kinds of KV cache in which a prefix is usable once all its blocks are there. A sliding window needs its last blocks
# only and a state-space model its last state, so a run of blocks from the start says nothing about those.
_PREFIX_KINDS = frozenset({"unknown", "full_attention", "mla_attention", "sink_full_attention"})

# Groups and adapters of one engine are few. What names more of them is forgotten, so that a publisher cannot make this
# grow without end.
_MOST = 1_024


class BlockIndex(Protocol):
    """The part of `PrefixIndex` that events change."""

    def store(
        self,
        worker: int,
        tier: Tier,
        parent: EngineHash | None,
        engine_hashes: Sequence[EngineHash],
        token_ids: Sequence[int],
        block_size: int,
        namespace: Namespace = ...,
        block_keys: Sequence[bytes | None] | None = None,
    ) -> StoreResult: ...

    def store_known(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> int: ...

    def remove(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> int: ...

    def clear(self, worker: int) -> int: ...


class EventApplier:
    """The way of one lane's bytes into the index. Used by one thread at a time; lanes need not wait for each other."""

    def __init__(self, index: PrefixIndex, lane: int) -> None:
        self._native = _native.EventLane(index._native, lane)

    def apply(self, payload: bytes) -> ApplyReport:
        """Applies one batch as it came over the wire. Raises UndecodableFrame if it is not a batch at all."""
        try:
            return self._native.apply(payload)
        except ValueError as error:
            raise UndecodableFrame(str(error)) from error

    def apply_many(self, payloads: Sequence[bytes]) -> list[tuple[int, ApplyReport | str]]:
        """Applies batches in their order. Their reports, each with the number of batches that it is of (several in a
        row where nothing is cleared); for what is not a batch the reason.
        """
        return self._native.apply_many(payloads)

    def reset(self) -> None:
        """Another engine process: forgets what the last one taught (`EngineMemory`). Clears no blocks."""
        self._native.reset()


class CacheGroups:
    """Which KV-cache groups of one engine serve prefix matching.

    Engines with hybrid attention announce the same tokens, under the same hashes, once per group; a removal carries
    the group's number only, and from a group that is not indexed it must not remove another group's block.
    """

    def __init__(self) -> None:
        self._left_out: set[int | None] = set()

    def admits(self, event: BlockStored) -> bool:
        """Whether the blocks of this store are indexed. A kind is remembered; without one (placeholders) the last one
        of the group counts."""
        if event.spec_kind in _PREFIX_KINDS:
            self._left_out.discard(event.group)
        elif event.spec_kind is not None:
            if len(self._left_out) >= _MOST:
                self._left_out.clear()
            self._left_out.add(event.group)
        return self.is_indexed(event.group)

    def is_indexed(self, group: int | None) -> bool:
        return group not in self._left_out


class AdapterLoads:
    """Which loading of each adapter the blocks of one engine belong to: the number that it gave it, by name.

    Engines count: loaded again, under the same name, an adapter has a higher number and maybe other weights. A lower
    number is that of another front end of the same engine, which numbers for itself.
    """

    def __init__(self) -> None:
        self._highest: dict[str, int] = {}

    def is_reloaded(self, event: BlockStored) -> bool:
        """Remembers a loading; whether the adapter was known by this name under a lower number."""
        name, load = event.adapter, event.adapter_load
        if name is None or load is None:
            return False
        highest = self._highest.get(name)
        if highest is None and len(self._highest) >= _MOST:
            self._highest.clear()
        self._highest[name] = load if highest is None else max(highest, load)
        return highest is not None and load > highest


@dataclass(slots=True)
class EngineMemory:
    """What earlier events of an engine process tell about later ones."""

    groups: CacheGroups = field(default_factory=CacheGroups)
    adapters: AdapterLoads = field(default_factory=AdapterLoads)


def apply_batch(index: BlockIndex, lane: int, batch: EventBatch, memory: EngineMemory | None = None) -> ApplyReport:
    """Applies a batch of one lane. `memory` is what earlier batches of the same engine process taught."""
    memory = EngineMemory() if memory is None else memory
    report = ApplyReport()
    for reason in batch.rejected:
        report.reject(reason)
    for event in batch.events:
        match event:
            case BlockStored():
                _store(index, lane, event, memory, report)
            case BlockRemoved():
                if memory.groups.is_indexed(event.group):
                    report.removed += index.remove(lane, event.tier, event.block_hashes)
            case AllBlocksCleared():
                index.clear(lane)
                report.cleared += 1
    return report


def _store(index: BlockIndex, lane: int, event: BlockStored, memory: EngineMemory, report: ApplyReport) -> None:
    if memory.adapters.is_reloaded(event):
        # Blocks of the earlier loading are computed with other weights. Which they are is not recorded, so all go: a
        # miss, never credit for the wrong weights.
        index.clear(lane)
        report.reloaded += 1
    blocks = len(event.block_hashes)
    if not memory.groups.admits(event):
        report.unindexed += blocks
    elif event.is_placeholder:
        known = index.store_known(lane, event.tier, event.block_hashes)
        report.duplicate += known
        report.unindexed += blocks - known
    elif not event.is_indexable:
        report.unindexed += blocks
    else:
        _store_chain(index, lane, event, report)


def _store_chain(index: BlockIndex, lane: int, event: BlockStored, report: ApplyReport) -> None:
    try:
        result = index.store(
            lane,
            event.tier,
            event.parent,
            event.block_hashes,
            event.token_ids,
            event.block_size,
            Namespace(event.adapter, event.salt),
            event.block_keys,
        )
    except ValueError as error:
        # A token id or block size beyond 32 bits; types are the decoder's business.
        report.reject(str(error))
        return
    report.stored += result.stored
    report.duplicate += result.duplicate
    report.orphaned += result.orphaned
    report.linked += result.linked
    if result.rejected:
        report.reject("a store repeats a hash or names one of its own blocks as parent")
