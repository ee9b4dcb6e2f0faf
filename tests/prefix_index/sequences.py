"""Random sequences of operations on the index and its naive twin, each made again from its seed alone.

A sequence is data: where the twins disagree it is cut down to the operations that matter, and told as a list.
"""

import functools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefix_index.naive import NaivePrefixIndex, Prefix, prefixes_of
from warmroute.block import BlockHashes, EngineHash, Namespace, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

LONGEST = 30
"""Operations in a sequence."""

ORPHAN_LIMIT = 5
WORKERS = (0, 1, 2)
NAMES: tuple[EngineHash, ...] = (0, 1, 2, 3, 4, -2, 2**64 - 2, b"", b"x" * 32)
NAMESPACES = (Namespace(), Namespace(), Namespace("ad-1"), Namespace(None, "s"))
TIERS = (Tier.DEVICE, Tier.DEVICE, Tier.DEVICE, Tier.HOST, Tier.DISK, Tier.REMOTE)
KEYS = (None, None, None, b"", b"image")


@dataclass(frozen=True)
class Prompt:
    """What a client asks for, as hashes for the index and spelled out for its twin."""

    token_ids: tuple[int, ...]
    block_size: int
    namespace: Namespace = NAMESPACES[0]
    keys: tuple[bytes | None, ...] | None = None

    @property
    def hashes(self) -> BlockHashes:
        return _hashes(self)

    @property
    def prefixes(self) -> list[Prefix]:
        return _prefixes(self)


@functools.lru_cache(100_000)
def _hashes(prompt: Prompt) -> BlockHashes:
    return hash_blocks(prompt.token_ids, prompt.block_size, prompt.namespace, prompt.keys)


@functools.lru_cache(100_000)
def _prefixes(prompt: Prompt) -> list[Prefix]:
    return prefixes_of(prompt.token_ids, prompt.block_size, prompt.namespace, prompt.keys or ())


@dataclass(frozen=True)
class Operation:
    """`name` is a method of both twins; a prompt among the arguments is given to each in its own form.

    `restore_from` and `restart` are `dump` and `restore`: from one worker to another, of all of them to a new index.
    """

    name: str
    arguments: tuple[Any, ...]


def random_operation(rng: random.Random, workers: Sequence[int] = WORKERS) -> Operation:
    """Mostly what an honest engine or router does, sometimes anything."""
    (name,) = rng.choices(list(_ARGUMENTS), [weight for weight, _ in _ARGUMENTS.values()])
    return Operation(name, _ARGUMENTS[name][1](rng, rng.choice(workers)))


def random_sequence(seed: int, workers: Sequence[int] = WORKERS, longest: int = LONGEST) -> list[Operation]:
    """Always the same one for a seed."""
    rng = random.Random(seed)
    return [random_operation(rng, workers) for _ in range(rng.randint(1, longest))]


def _store(rng: random.Random, worker: int) -> tuple[Any, ...]:
    block_size, namespace, tier = rng.choice((1, 2)), rng.choice(NAMESPACES), rng.choice(TIERS)
    if rng.random() < 0.6:
        start, blocks = rng.randrange(5), rng.randint(1, 4)
        names: list[EngineHash] = list(range(start, start + blocks))
        return worker, tier, start - 1 if start else None, names, [0] * blocks * block_size, block_size, namespace, None
    names = rng.choices(NAMES, k=rng.randrange(5))
    surplus = 1 if rng.random() < 0.1 else 0
    token_ids = [rng.choice((0, 0, 1)) for _ in range(len(names) * block_size + surplus)]
    keys = rng.choices(KEYS, k=len(names)) if rng.random() < 0.3 else None
    parent = rng.choice(NAMES) if rng.random() < 0.6 else None
    return worker, tier, parent, names, token_ids, block_size, namespace, keys


def _names(rng: random.Random, worker: int) -> tuple[Any, ...]:
    return worker, rng.choice(TIERS), rng.choices(NAMES, k=rng.randint(1, 4))


def _prompt(rng: random.Random) -> Prompt:
    block_size = rng.choice((1, 2))
    token_ids = tuple(rng.choice((0, 0, 0, 1)) for _ in range(rng.randrange(13)))
    keys = tuple(rng.choices(KEYS, k=12)) if rng.random() < 0.2 else None
    return Prompt(token_ids, block_size, rng.choice(NAMESPACES), keys)


def _time(rng: random.Random) -> float:
    return float(rng.randrange(21))


_ARGUMENTS: dict[str, tuple[float, Callable[[random.Random, int], tuple[Any, ...]]]] = {
    "store": (8.0, _store),
    "remove": (5.0, _names),
    "predict": (4.0, lambda rng, w: (w, _prompt(rng), math.inf if rng.random() < 0.2 else _time(rng))),
    "store_known": (1.5, _names),
    "match": (1.5, lambda rng, w: (_prompt(rng), _time(rng))),
    "truncate": (1.0, lambda rng, w: (w, _prompt(rng), rng.randrange(6))),
    "restore_from": (0.7, lambda rng, w: (w, w if rng.random() < 0.7 else rng.choice(WORKERS))),
    "restart": (0.3, lambda rng, w: ()),
    "expire": (1.0, lambda rng, w: (_time(rng),)),
    "add_worker": (1.0, lambda rng, w: (w, rng.randrange(9))),
    "clear": (0.5, lambda rng, w: (w,)),
    "forget": (0.5, lambda rng, w: (w,)),
}

_PROBES = [Prompt((0,) * 8 * size, size, namespace) for size in (1, 2) for namespace in NAMESPACES[1:]]


class Twins:
    """The index and its definition; two of the three workers are known at the start."""

    def __init__(self, workers: Sequence[int] = WORKERS, index: PrefixIndex | None = None) -> None:
        self.index = PrefixIndex(ORPHAN_LIMIT) if index is None else index
        self.naive = NaivePrefixIndex(ORPHAN_LIMIT)
        self.workers = workers
        for worker in workers[:2]:
            self.index.add_worker(worker, 5)
            self.naive.add_worker(worker, 5)

    def apply(self, operation: Operation) -> None:
        """Does it to both; AssertionError where their answers differ."""
        if operation.name == "restart":
            self.restart()
            return
        if operation.name == "restore_from":
            self.restore_from(*operation.arguments)
            return
        told = getattr(self.index, operation.name)(*_in_form("hashes", operation))
        expected = getattr(self.naive, operation.name)(*_in_form("prefixes", operation))
        if expected is not None:
            assert told == expected, f"{operation.name} gave {told}, the twin {expected}"

    def restart(self) -> None:
        """All workers are dumped and restored into a new index, as when the router is restarted."""
        old, self.index = self.index, PrefixIndex(ORPHAN_LIMIT)
        for worker, held in self.naive.known.items():
            self.index.add_worker(worker, held.prediction_limit)
            assert self.index.restore(worker, old.dump(worker)) == len(set(held.stands_for.values()))
            self.naive.restore_from(worker, worker)

    def restore_from(self, worker: int, saved: int) -> None:
        """One worker takes over what another (or it itself) has announced."""
        if worker in self.naive.known and saved in self.naive.known:
            dump = self.index.dump(saved)
            blocks = len(set(self.naive.known[saved].stands_for.values()))
            assert PrefixIndex.check_dump(dump) == self.index.restore(worker, dump) == blocks
            self.naive.restore_from(worker, saved)

    def compare(self) -> None:
        """AssertionError where any answer differs, or the index contradicts itself."""
        for probe in _PROBES:
            assert self.index.match(probe.hashes, 10.0) == self.naive.match(probe.prefixes, 10.0), probe
        assert self.index.size() == self.naive.size()
        assert self.index.stats()["orphans"] == self.naive.orphans()
        assert self.index.workers() == sorted(self.naive.known)
        self.compare_workers()
        self.index.check_integrity()

    def compare_workers(self) -> None:
        """What is asked of one worker; also where others share the index."""
        for worker in self.workers:
            assert self.index.blocks(worker) == self.naive.blocks(worker), worker
            assert self.index.block_sizes(worker) == self.naive.block_sizes(worker), worker
            if worker in self.naive.known:
                told = self.index.worker_stats(worker)
                expected = self.naive.worker_stats(worker)
                assert {name: told[name] for name in expected} == expected, worker


def _in_form(form: str, operation: Operation) -> list[Any]:
    return [getattr(value, form) if isinstance(value, Prompt) else value for value in operation.arguments]


def disagreement(operations: Sequence[Operation]) -> str | None:
    """Where the twins part after one of these operations; None if they do not."""
    twins = Twins()
    for step, operation in enumerate(operations):
        try:
            twins.apply(operation)
            twins.compare()
        except Exception as error:
            return f"step {step}: {type(error).__name__}: {error}"
    return None


def shrunk(operations: Sequence[Operation]) -> list[Operation]:
    """The same disagreement, or another, in as few operations as leaving out single ones reaches."""
    left = list(operations)
    position = 0
    while position < len(left):
        fewer = left[:position] + left[position + 1 :]
        if disagreement(fewer) is None:
            position += 1
        else:
            left, position = fewer, 0
    return left


def check_seeds(seeds: range) -> int:
    """Runs a sequence for each seed; how many. AssertionError with the shrunk sequence where the twins disagree."""
    for seed in seeds:
        operations = random_sequence(seed)
        if disagreement(operations) is not None:
            fewest = shrunk(operations)
            listed = "\n".join(f"    {operation}," for operation in fewest)
            raise AssertionError(f"seed {seed}: {disagreement(fewest)}\n{listed}")
    return len(seeds)
