"""An index that remembers what it was told, in order, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from warmroute.block import EngineHash, Namespace, Tier
from warmroute.prefix_index import StoreResult


def store_result(**counts: int) -> StoreResult:
    zero = dict.fromkeys(("stored", "duplicate", "orphaned", "rejected", "ignored", "linked"), 0)
    return cast(StoreResult, SimpleNamespace(**{**zero, **counts}))


@dataclass
class RecordingIndex:
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def store(
        self,
        worker: int,
        tier: Tier,
        parent: EngineHash | None,
        engine_hashes: Sequence[EngineHash],
        token_ids: Sequence[int],
        block_size: int,
        namespace: Namespace = Namespace(),  # noqa: B008 - frozen
        block_keys: Sequence[bytes | None] | None = None,
    ) -> StoreResult:
        self.calls.append(("store", worker, tier, parent, list(engine_hashes), list(token_ids), namespace, block_keys))
        return store_result(stored=len(engine_hashes))

    def store_known(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> int:
        self.calls.append(("store_known", worker, tier, list(engine_hashes)))
        return len(engine_hashes)

    def remove(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> int:
        self.calls.append(("remove", worker, tier, list(engine_hashes)))
        return len(engine_hashes)

    def clear(self, worker: int) -> int:
        self.calls.append(("clear", worker))
        return 0
