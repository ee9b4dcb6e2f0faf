"""Whether the Rust that applies bytes and its Python twin leave the same index; `check` is what fuzzers call."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kv_event.twin.decode import decode_batch
from warmroute.block import BlockHashes, EngineHash, Namespace, Tier, hash_blocks
from warmroute.errors import UndecodableFrame
from warmroute.kv_event.apply import ApplyReport, EngineMemory, EventApplier, apply_batch
from warmroute.kv_event.messages import AllBlocksCleared, BlockStored, EventBatch
from warmroute.prefix_index import PrefixIndex

_LANE = 1
_COUNTS = ("stored", "duplicate", "orphaned", "linked", "removed", "unindexed", "cleared", "reloaded", "rejected")


def check(payloads: Sequence[bytes]) -> None:
    """Applies the payloads of one lane in both ways. AssertionError where anything differs."""
    pair = _Pair()
    for payload in payloads:
        pair.apply(payload)
    pair.probe()


def counts(report: ApplyReport) -> dict[str, int]:
    return {name: getattr(report, name) for name in _COUNTS}


def _index() -> PrefixIndex:
    index = PrefixIndex()
    index.add_worker(_LANE, 0)
    return index


@dataclass
class _Pair:
    native: PrefixIndex = field(default_factory=_index)
    twin: PrefixIndex = field(default_factory=_index)
    memory: EngineMemory = field(default_factory=EngineMemory)
    prompts: list[BlockHashes] = field(default_factory=list)
    hashes: set[EngineHash] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.applier = EventApplier(self.native, _LANE)

    def apply(self, payload: bytes) -> None:
        ((_, report),) = self.applier.apply_many([payload])
        try:
            batch = decode_batch(payload)
        except UndecodableFrame:
            assert isinstance(report, str), report
            return
        assert isinstance(report, ApplyReport), report
        expected = apply_batch(self.twin, _LANE, batch, self.memory)
        assert counts(report) == counts(expected)
        assert len(report.rejections) == len(expected.rejections)
        self._note(batch)
        self._compare()

    def _note(self, batch: EventBatch) -> None:
        for event in batch.events:
            if isinstance(event, AllBlocksCleared):
                continue
            self.hashes.update(event.block_hashes)
            if isinstance(event, BlockStored) and event.is_indexable and event.block_size < 2**32:
                self.prompts.append(_prompt(event))

    def _compare(self) -> None:
        self.native.check_integrity()
        assert self.native.stats() == self.twin.stats()
        assert self.native.blocks(_LANE) == self.twin.blocks(_LANE)
        for prompt in self.prompts:
            assert self.native.match(prompt, 0.0) == self.twin.match(prompt, 0.0)

    def probe(self) -> None:
        """Takes out copy after copy, which tells what each engine hash stood for and how often."""
        for block_hash in sorted(self.hashes, key=repr):
            for tier in Tier:
                left = [_take_all(index, tier, block_hash) for index in (self.native, self.twin)]
                assert left[0] == left[1], (block_hash, tier)
            self._compare()


def _prompt(event: BlockStored) -> BlockHashes:
    """The blocks of the store if it begins a prompt; otherwise as if it did, which then is what another one may be."""
    return hash_blocks(event.token_ids, event.block_size, Namespace(event.adapter, event.salt), event.block_keys)


def _take_all(index: PrefixIndex, tier: Tier, block_hash: EngineHash) -> int:
    copies = 0
    while index.remove(_LANE, tier, [block_hash]):
        copies += 1
    return copies


def check_each(payloads: Iterable[bytes]) -> None:
    """Each payload for itself."""
    for payload in payloads:
        check([payload])
