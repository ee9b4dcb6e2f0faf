"""Events -> the prefix index, in the order in which the engine said them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warmroute.block import EngineHash, Namespace, Tier
from warmroute.errors import UndecodableFrame
from warmroute.kv_event.decode import decode_batch
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch
from warmroute.prefix_index import StoreResult

# Kinds of KV cache in which a prefix is usable once all its blocks are there. A sliding window needs its last blocks
# only and a state-space model its last state, so a run of blocks from the start says nothing about those.
_PREFIX_KINDS = frozenset({None, "unknown", "full_attention", "mla_attention", "sink_full_attention"})


REJECTIONS_KEPT = 4
"""Reasons that a report carries; a broken publisher would give the same one for every event."""


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


@dataclass(slots=True)
class ApplyReport:
    """What a batch did. Numbers of blocks, but for `cleared` and `rejected`, which count events.

    `unindexed` blocks are left out on purpose: their tokens are not told or their cache group serves no prefixes.
    `rejected` events could not be read, or contradict themselves; `rejections` says why for the first few.
    """

    stored: int = 0
    duplicate: int = 0
    orphaned: int = 0
    linked: int = 0
    removed: int = 0
    unindexed: int = 0
    cleared: int = 0
    rejected: int = 0
    rejections: list[str] = field(default_factory=list)

    def reject(self, reason: str) -> None:
        self.rejected += 1
        if len(self.rejections) < REJECTIONS_KEPT:
            self.rejections.append(reason)


class CacheGroups:
    """Which KV-cache groups of one engine serve prefix matching.

    Engines with hybrid attention announce the same tokens, under the same hashes, once per group; a removal carries
    the group's number only, and from a group that is not indexed it must not remove another group's block.
    """

    def __init__(self) -> None:
        self._left_out: set[int | None] = set()

    def admits(self, event: BlockStored) -> bool:
        """Whether the blocks of this store are indexed; remembers the kind of its group."""
        if event.spec_kind in _PREFIX_KINDS:
            self._left_out.discard(event.group)
            return True
        self._left_out.add(event.group)
        return False

    def is_indexed(self, group: int | None) -> bool:
        return group not in self._left_out


class EventApplier:
    """The way of one lane's bytes into the index. Used by one thread at a time; lanes need not wait for each other."""

    def __init__(self, index: BlockIndex, lane: int) -> None:
        self._index = index
        self._lane = lane
        self._groups = CacheGroups()

    def apply(self, payload: bytes) -> ApplyReport:
        """Applies one batch as it came over the wire. Raises UndecodableFrame if it is not a batch at all."""
        return apply_batch(self._index, self._lane, decode_batch(payload), self._groups)

    def apply_many(self, payloads: Sequence[bytes]) -> list[ApplyReport | str]:
        """Applies batches in their order; for each its report, or the reason why it is not a batch."""
        return [self._report_or_reason(payload) for payload in payloads]

    def _report_or_reason(self, payload: bytes) -> ApplyReport | str:
        try:
            return self.apply(payload)
        except UndecodableFrame as error:
            return str(error)

    def reset(self) -> None:
        """Another engine process: forgets what the last one said of its cache groups. Clears no blocks."""
        self._groups = CacheGroups()


def apply_batch(index: BlockIndex, worker: int, batch: EventBatch, groups: CacheGroups | None = None) -> ApplyReport:
    """Applies a batch of one worker. `groups` is what earlier batches of the same engine process taught."""
    groups = CacheGroups() if groups is None else groups
    report = ApplyReport()
    for reason in batch.rejected:
        report.reject(reason)
    for event in batch.events:
        match event:
            case BlockStored():
                _store(index, worker, event, groups, report)
            case BlockRemoved():
                if groups.is_indexed(event.group):
                    report.removed += index.remove(worker, event.tier, event.block_hashes)
            case AllBlocksCleared():
                index.clear(worker)
                report.cleared += 1
    return report


def _store(index: BlockIndex, worker: int, event: BlockStored, groups: CacheGroups, report: ApplyReport) -> None:
    blocks = len(event.block_hashes)
    if not groups.admits(event):
        report.unindexed += blocks
    elif event.is_placeholder:
        known = index.store_known(worker, event.tier, event.block_hashes)
        report.duplicate += known
        report.unindexed += blocks - known
    elif not event.is_indexable:
        report.unindexed += blocks
    else:
        _store_chain(index, worker, event, report)


def _store_chain(index: BlockIndex, worker: int, event: BlockStored, report: ApplyReport) -> None:
    try:
        result = index.store(
            worker,
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
