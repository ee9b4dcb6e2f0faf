"""Any sequence of operations leaves the Rust index and its naive twin with the same answers."""

import math
import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from prefix_index.naive import NaivePrefixIndex, Prefix, prefixes_of
from warmroute.block import BlockHashes, EngineHash, Namespace, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

ORPHAN_LIMIT = 6
WORKERS = st.integers(0, 2)
TIERS = st.sampled_from([Tier.DEVICE, Tier.DEVICE, Tier.HOST, Tier.DISK, Tier.REMOTE])
NAMES: st.SearchStrategy[EngineHash] = st.sampled_from([-2, 2**64 - 2, 0, 1, 2, 3, 4, b"", b"\1", b"x" * 32])
BLOCK_SIZES = st.sampled_from([1, 2])
NAMESPACES = st.sampled_from([Namespace(), Namespace("ad-1"), Namespace(None, "s")])
KEYS = st.sampled_from([None, None, None, b"", b"image"])
TIMES = st.integers(0, 20).map(float)


@st.composite
def stores(draw: st.DrawFn) -> dict[str, Any]:
    """Mostly what an honest engine sends, names following from depth; else anything, wrong numbers included."""
    block_size = draw(BLOCK_SIZES)
    store: dict[str, Any] = {"block_size": block_size, "namespace": draw(NAMESPACES)}
    if draw(st.booleans()):
        start, blocks = draw(st.integers(0, 4)), draw(st.integers(1, 4))
        chain = [start + block for block in range(blocks)]
        return store | {
            "parent": start - 1 if start else None,
            "engine_hashes": chain,
            "token_ids": [0] * blocks * block_size,
        }
    names: list[EngineHash] = draw(st.lists(NAMES, max_size=4))
    surplus = draw(st.sampled_from([0, 0, 0, 0, 1]))
    keys = draw(st.none() | st.lists(KEYS, min_size=len(names), max_size=len(names)))
    return store | {
        "parent": draw(st.none() | NAMES),
        "engine_hashes": names,
        "token_ids": draw(
            st.lists(st.integers(0, 1), min_size=len(names) * block_size, max_size=len(names) * block_size)
        )
        + [0] * surplus,
        "block_keys": keys,
    }


@st.composite
def prompts(draw: st.DrawFn) -> tuple[BlockHashes, list[Prefix]]:
    block_size, namespace = draw(BLOCK_SIZES), draw(NAMESPACES)
    tokens = draw(st.lists(st.sampled_from([0, 0, 0, 1]), max_size=12))
    keys = draw(st.just(None) | st.lists(KEYS, min_size=12, max_size=12))
    hashes = hash_blocks(tokens, block_size, namespace, keys)
    return hashes, prefixes_of(tokens, block_size, namespace, keys or ())


class Twins(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex(ORPHAN_LIMIT)
        self.naive = NaivePrefixIndex(ORPHAN_LIMIT)

    @initialize()
    def two_workers(self) -> None:
        for worker in (0, 1):
            self.add_worker(worker, 5)

    @rule(worker=WORKERS, limit=st.integers(0, 8))
    def add_worker(self, worker: int, limit: int) -> None:
        self.index.add_worker(worker, limit)
        self.naive.add_worker(worker, limit)

    @rule(worker=WORKERS)
    def forget(self, worker: int) -> None:
        assert self.index.forget(worker) == self.naive.blocks(worker)
        self.naive.forget(worker)

    @rule(worker=WORKERS)
    def clear(self, worker: int) -> None:
        assert self.index.clear(worker) == self.naive.blocks(worker)
        self.naive.clear(worker)

    @rule(worker=WORKERS, tier=TIERS, store=stores())
    def store(self, worker: int, tier: Tier, store: dict[str, Any]) -> None:
        result = self.index.store(worker, tier, **store)
        self.naive.store(worker, tier, **store)
        told = result.stored + result.duplicate + result.orphaned + result.rejected + result.ignored
        assert told == len(store["engine_hashes"])

    @rule(worker=WORKERS, tier=TIERS, names=st.lists(NAMES, max_size=3))
    def store_known(self, worker: int, tier: Tier, names: list[EngineHash]) -> None:
        self.index.store_known(worker, tier, names)
        self.naive.store_known(worker, tier, names)

    @rule(worker=WORKERS, tier=TIERS, names=st.lists(NAMES, max_size=4))
    def remove(self, worker: int, tier: Tier, names: list[EngineHash]) -> None:
        self.index.remove(worker, tier, names)
        self.naive.remove(worker, tier, names)

    @rule(worker=WORKERS, prompt=prompts(), expires_at=TIMES | st.just(math.inf))
    def predict(self, worker: int, prompt: tuple[BlockHashes, list[Prefix]], expires_at: float) -> None:
        hashes, prefixes = prompt
        self.index.predict(worker, hashes, expires_at)
        self.naive.predict(worker, prefixes, expires_at)

    @rule(worker=WORKERS, prompt=prompts(), keep=st.integers(0, 5))
    def truncate(self, worker: int, prompt: tuple[BlockHashes, list[Prefix]], keep: int) -> None:
        hashes, prefixes = prompt
        assert self.index.truncate(worker, hashes, keep) == self.naive.truncate(worker, prefixes, keep)

    @rule(worker=WORKERS, saved=WORKERS)
    def restore(self, worker: int, saved: int) -> None:
        if {worker, saved} <= self.naive.known.keys():
            self.index.restore(worker, self.index.dump(saved))
            self.naive.restore_from(worker, saved)

    @rule(now=TIMES)
    def expire(self, now: float) -> None:
        self.index.expire(now)
        self.naive.expire(now)

    @rule(prompt=prompts(), now=TIMES)
    def match(self, prompt: tuple[BlockHashes, list[Prefix]], now: float) -> None:
        hashes, prefixes = prompt
        assert self.index.match(hashes, now) == self.naive.match(prefixes, now)

    @invariant()
    def answers_are_equal(self) -> None:
        for block_size in (1, 2):
            hashes = hash_blocks([0] * 8 * block_size, block_size, Namespace())
            prefixes = prefixes_of([0] * 8 * block_size, block_size, Namespace())
            assert self.index.match(hashes, 10.0) == self.naive.match(prefixes, 10.0)
        assert [self.index.blocks(worker) for worker in range(4)] == [self.naive.blocks(worker) for worker in range(4)]
        assert self.index.size() == self.naive.size()
        assert self.index.stats()["orphans"] == self.naive.orphans()
        assert self.index.workers() == sorted(self.naive.known)
        self.index.check_integrity()


Twins.TestCase.settings = settings(
    max_examples=int(os.environ.get("WARMROUTE_TWIN_EXAMPLES", "80")), stateful_step_count=40, deadline=None
)
TestTwins = Twins.TestCase
