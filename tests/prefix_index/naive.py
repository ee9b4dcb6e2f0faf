"""The index as a definition: dictionaries and sets, prefixes spelled out as tokens. Slow, and right by inspection."""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from warmroute.block import EngineHash, Namespace, Overlap, Tier

Prefix = tuple[object, ...]
"""(block size, namespace), then (token ids, block key) of each block."""


class Orphan(NamedTuple):
    name: EngineHash
    parent: EngineHash
    content: object
    tier: Tier


@dataclass
class NaiveWorker:
    prediction_limit: int
    stands_for: dict[EngineHash, Prefix] = field(default_factory=dict)
    copies: Counter[tuple[EngineHash, Tier]] = field(default_factory=Counter)
    orphans: list[Orphan] = field(default_factory=list)
    predictions: dict[Prefix, float] = field(default_factory=dict)
    sizes: Counter[int] = field(default_factory=Counter)

    def tiers(self, prefix: Prefix) -> set[Tier]:
        return {tier for name, tier in +self.copies if self.stands_for[name] == prefix}

    def put(self, name: EngineHash, prefix: Prefix, tier: Tier) -> None:
        self.stands_for[name] = prefix
        self.copies[name, tier] += 1
        self.predictions.pop(prefix, None)

    def trim(self) -> None:
        while len(self.predictions) > self.prediction_limit:
            del self.predictions[next(iter(self.predictions))]


class NaivePrefixIndex:
    """The same operations as `PrefixIndex`, but prompts are given as prefixes (see `prefixes_of`), not as hashes."""

    def __init__(self, orphan_limit: int) -> None:
        self.orphan_limit = orphan_limit
        self.known: dict[int, NaiveWorker] = {}

    def add_worker(self, worker: int, prediction_limit: int) -> None:
        self.known.setdefault(worker, NaiveWorker(prediction_limit)).prediction_limit = prediction_limit
        self.known[worker].trim()

    def forget(self, worker: int) -> None:
        self.known.pop(worker, None)

    def clear(self, worker: int) -> None:
        if worker in self.known:
            self.known[worker] = NaiveWorker(self.known[worker].prediction_limit)

    def store(
        self,
        worker: int,
        tier: Tier,
        parent: EngineHash | None,
        engine_hashes: Sequence[EngineHash],
        token_ids: Sequence[int],
        block_size: int,
        namespace: Namespace = Namespace(),  # noqa: B008  frozen
        block_keys: Sequence[bytes | None] | None = None,
    ) -> None:
        names = [canonical(name) for name in engine_hashes]
        parent = None if parent is None else canonical(parent)
        keys = block_keys or [None] * len(names)
        sound = len(token_ids) == block_size * len(names) and block_size > 0 and len(keys) == len(names)
        if worker not in self.known or not sound or len({parent, *names}) != 1 + len(names):
            return
        contents = prefixes_of(token_ids, block_size, namespace, keys)[-1][1:] if names else ()
        held = self.known[worker]
        unknown = [name for name in names if name not in held.stands_for]
        for name, content in zip(names, contents, strict=True):
            above: Prefix | None = ((block_size, namespace),) if parent is None else held.stands_for.get(parent)
            if above is not None:
                held.put(name, (*above, content), tier)
                held.sizes[block_size] += 1
            elif parent is not None:
                held.orphans.append(Orphan(name, parent, content, tier))
                del held.orphans[: -self.orphan_limit or None]
            parent = name
        self._link(held, [name for name in unknown if name in held.stands_for])

    @staticmethod
    def _link(held: NaiveWorker, newly_known: list[EngineHash]) -> None:
        for parent in newly_known:  # grows on the way
            for orphan in [orphan for orphan in held.orphans if orphan.parent == parent]:
                held.orphans.remove(orphan)
                prefix = (*held.stands_for[parent], orphan.content)
                if orphan.name not in held.stands_for:
                    newly_known.append(orphan.name)
                if held.stands_for.get(orphan.name, prefix) == prefix:
                    held.put(orphan.name, prefix, orphan.tier)

    def store_known(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> None:
        for name in map(canonical, engine_hashes):
            if worker in self.known and name in self.known[worker].stands_for:
                self.known[worker].put(name, self.known[worker].stands_for[name], tier)

    def remove(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> None:
        held = self.known.get(worker, NaiveWorker(0))
        for name in map(canonical, engine_hashes):
            waiting = [orphan for orphan in held.orphans if (orphan.name, orphan.tier) == (name, tier)]
            if held.copies[name, tier]:
                held.copies[name, tier] -= 1
                if not any(held.copies[name, other] for other in Tier):
                    del held.stands_for[name]
            elif waiting:
                held.orphans.remove(waiting[0])

    def predict(self, worker: int, prefixes: Iterable[Prefix], expires_at: float) -> None:
        held = self.known.get(worker, NaiveWorker(0))
        for prefix in reversed(list(prefixes)):
            if not held.tiers(prefix):
                held.predictions.pop(prefix, None)
                held.predictions[prefix] = expires_at
        held.trim()

    def truncate(self, worker: int, prefixes: Sequence[Prefix], keep: int) -> int:
        held = self.known.get(worker, NaiveWorker(0))
        dropped = [held.predictions.pop(prefix) for prefix in prefixes[keep:] if prefix in held.predictions]
        return len(dropped)

    def restore_from(self, worker: int, saved: int) -> None:
        """What the one has announced becomes all that is known of the other."""
        if worker in self.known and saved in self.known:
            limit = self.known[worker].prediction_limit
            self.known[worker] = replace(deepcopy(self.known[saved]), predictions={}, prediction_limit=limit)

    def expire(self, now: float) -> None:
        for held in self.known.values():
            held.predictions = {prefix: until for prefix, until in held.predictions.items() if until > now}

    def match(self, prefixes: Sequence[Prefix], now: float) -> dict[int, Overlap]:
        found = {worker: self._overlap(held, prefixes, now) for worker, held in sorted(self.known.items())}
        return {worker: overlap for worker, overlap in found.items() if overlap.blocks}

    @staticmethod
    def _overlap(held: NaiveWorker, prefixes: Sequence[Prefix], now: float) -> Overlap:
        counts = [0, 0, 0, 0, 0]
        for prefix in prefixes:
            tiers = held.tiers(prefix)
            if not tiers and held.predictions.get(prefix, now) <= now:
                break
            counts[min(tiers, default=4)] += 1
        return Overlap(*counts)

    def blocks(self, worker: int) -> int:
        held = self.known.get(worker, NaiveWorker(0))
        return len({*held.stands_for.values(), *held.predictions})

    def block_sizes(self, worker: int) -> dict[int, int]:
        return dict(self.known.get(worker, NaiveWorker(0)).sizes)

    def worker_stats(self, worker: int) -> dict[str, int]:
        held = self.known[worker]
        tiers = [held.tiers(prefix) for prefix in set(held.stands_for.values())]
        by_tier = {tier.name.lower(): sum(tier in found for found in tiers) for tier in Tier}
        counts = {"confirmed": len(tiers), "predicted": len(held.predictions), "orphans": len(held.orphans)}
        return by_tier | counts

    def size(self) -> int:
        return len(
            {prefix for held in self.known.values() for prefix in (*held.stands_for.values(), *held.predictions)}
        )

    def orphans(self) -> int:
        return sum(len(held.orphans) for held in self.known.values())


def canonical(name: EngineHash) -> EngineHash:
    """A negative 64-bit integer is the same key as its two's complement."""
    return name if isinstance(name, bytes) else name % 2**64


def prefixes_of(
    token_ids: Sequence[int], block_size: int, namespace: Namespace, keys: Sequence[bytes | None] = ()
) -> list[Prefix]:
    """The prefixes that end with each full block."""
    blocks: list[object] = []
    for block in range(len(token_ids) // block_size):
        ids = tuple(token_ids[block * block_size : (block + 1) * block_size])
        blocks.append((ids, keys[block] if keys else None))
    return [((block_size, namespace), *blocks[: end + 1]) for end in range(len(blocks))]
