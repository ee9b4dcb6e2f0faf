"""How long does the index take to store, predict and match, with 8 workers of 100,000 blocks?

Each worker holds 90 prompts of its own and 10 that all hold, 1,000 blocks of 16 tokens each. Times are those of the
Python face, conversions included. The baseline is what plain Python does with a dictionary of sets on the same hashes.
"""

import argparse
import json
import math
import random
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.environment import environment, spread

from warmroute.block import BlockHashes, Namespace, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

WORKERS = 8
OWN, SHARED = 90, 10
BLOCKS, BLOCK_SIZE = 1_000, 16
LOOKUPS = (16, 64, 256, 1_000)
REPEATS = 200
FLEETS = (8, 64, 512, 2_048)
PLAIN = Namespace()

Held = dict[str, list[BlockHashes]]
"""Prompts by who holds them: one worker (own) or all (shared)."""


class DictOfSets:
    """Block hash -> workers. No tiers, copies, removal or predictions: less than the index does."""

    def __init__(self) -> None:
        self.holders: dict[int, set[int]] = {}

    def store(self, worker: int, hashes: BlockHashes) -> None:
        for block in hashes:
            self.holders.setdefault(block, set()).add(worker)

    def match(self, hashes: BlockHashes) -> dict[int, int]:
        overlaps: dict[int, int] = {}
        candidates: set[int] | None = None
        for block in hashes:
            holders = self.holders.get(block, set())
            candidates = holders if candidates is None else candidates & holders
            if not candidates:
                break
            for worker in candidates:
                overlaps[worker] = overlaps.get(worker, 0) + 1
        return overlaps


def timed(call: Callable[[], object]) -> float:
    """Microseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def prompt(rng: random.Random) -> "array[int]":
    return array("I", rng.randbytes(4 * BLOCKS * BLOCK_SIZE))


def fill(index: PrefixIndex, baseline: DictOfSets, rng: random.Random) -> dict[str, Any]:
    """Stores every prompt, alternately as one event and as events of 16 blocks; also the hashes to look up."""
    held: Held = {"own": [], "shared": []}
    whole: list[float] = []
    small: list[float] = []
    plain: list[float] = []
    placed = [("own", [worker]) for worker in range(WORKERS) for _ in range(OWN)]
    placed += [("shared", list(range(WORKERS))) for _ in range(SHARED)]
    for number, (kind, workers) in enumerate(placed):
        ids = prompt(rng).tolist()
        names = [rng.getrandbits(64) for _ in range(BLOCKS)]
        hashes = hash_blocks(ids, BLOCK_SIZE, PLAIN)
        held[kind].append(hashes)
        for worker in workers:
            if number % 2:
                whole.append(timed(lambda: index.store(worker, Tier.DEVICE, None, names, ids, BLOCK_SIZE)) / BLOCKS)  # noqa: B023
            else:
                small.extend(store_in_steps(index, worker, names, ids))
            plain.append(timed(lambda: baseline.store(worker, hashes)) / BLOCKS)  # noqa: B023
    times = {"event_of_1000_blocks": spread(whole), "event_of_16_blocks": spread(small), "baseline": spread(plain)}
    return {"held": held, "store_us_per_block": times}


def store_in_steps(index: PrefixIndex, worker: int, names: list[int], ids: list[int]) -> Iterator[float]:
    step = 16
    for start in range(0, BLOCKS, step):
        chunk, tokens = names[start : start + step], ids[start * BLOCK_SIZE : (start + step) * BLOCK_SIZE]
        parent = names[start - 1] if start else None
        yield timed(lambda: index.store(worker, Tier.DEVICE, parent, chunk, tokens, BLOCK_SIZE)) / len(chunk)  # noqa: B023


def lookups(
    index: PrefixIndex, baseline: DictOfSets, held: dict[str, list[BlockHashes]], rng: random.Random
) -> list[Any]:
    rows = []
    for kind, workers in (("shared", WORKERS), ("own", 1), ("unknown", 0)):
        for blocks in LOOKUPS:
            asked = [query(kind, held, rng).prefix(blocks) for _ in range(REPEATS)]
            for hashes in asked:
                found = {worker: overlap.blocks for worker, overlap in index.match(hashes, 0.0).items()}
                assert found == baseline.match(hashes), (kind, blocks)
                assert list(found.values()) == [blocks] * workers
            rng.shuffle(asked)
            native = [timed(lambda: index.match(hashes, 0.0)) for hashes in asked]  # noqa: B023
            plain = [timed(lambda: baseline.match(hashes)) for hashes in asked]  # noqa: B023
            rows.append({"held_by": workers, "blocks": blocks, "us": spread(native), "baseline_us": spread(plain)})
    return rows


def query(kind: str, held: Held, rng: random.Random) -> BlockHashes:
    if kind == "unknown":
        return BlockHashes.from_list([rng.getrandbits(64) for _ in range(BLOCKS)])
    return rng.choice(held[kind])


def prompt_work(index: PrefixIndex, rng: random.Random) -> dict[str, Any]:
    """What a new prompt of 1,000 blocks costs beside its lookup."""
    ids = prompt(rng)
    listed, hashes = ids.tolist(), hash_blocks(ids, BLOCK_SIZE, PLAIN)
    calls: dict[str, Callable[[], object]] = {
        "hash_list": lambda: hash_blocks(listed, BLOCK_SIZE, PLAIN),
        "hash_array": lambda: hash_blocks(ids, BLOCK_SIZE, PLAIN),
        "predict_again": lambda: index.predict(0, hashes, 1.0),
        "predict_and_expire": lambda: predict_and_expire(index, hashes),
    }
    return {name: spread([timed(call) for _ in range(REPEATS)]) for name, call in calls.items()}


def fleets(rng: random.Random) -> list[Any]:
    """A prompt of 64 blocks in fleets of several sizes, held by all workers or by 8 of them."""
    rows = []
    for workers in FLEETS:
        index = PrefixIndex()
        everywhere, somewhere = (hash_blocks(prompt(rng), BLOCK_SIZE, PLAIN).prefix(64) for _ in range(2))
        for worker in range(workers):
            index.add_worker(worker, BLOCKS)
            index.predict(worker, everywhere, math.inf)
        for worker in rng.sample(range(workers), 8):
            index.predict(worker, somewhere, math.inf)
        for held_by, hashes in ((workers, everywhere), (8, somewhere)):
            assert len(index.match(hashes, 0.0)) == held_by
            times = spread([timed(lambda: index.match(hashes, 0.0)) for _ in range(REPEATS)])  # noqa: B023
            rows.append({"workers": workers, "held_by": held_by, "us": times})
    return rows


def predict_and_expire(index: PrefixIndex, hashes: BlockHashes) -> None:
    index.predict(0, hashes, 1.0)
    index.expire(1.0)


def measure(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    index, baseline = PrefixIndex(), DictOfSets()
    for worker in range(WORKERS):
        index.add_worker(worker, BLOCKS)
    filled = fill(index, baseline, rng)
    assert [index.blocks(worker) for worker in range(WORKERS)] == [(OWN + SHARED) * BLOCKS] * WORKERS
    return {
        "question": "time to store, predict and match with 8 workers of 100,000 blocks",
        "environment": environment(),
        "seed": seed,
        "workload": {"workers": WORKERS, "blocks_per_worker": (OWN + SHARED) * BLOCKS, "block_size": BLOCK_SIZE},
        "store_us_per_block": filled["store_us_per_block"],
        "match": lookups(index, baseline, filled["held"], rng),
        "prompt_of_1000_blocks_us": prompt_work(index, rng),
        "match_64_blocks_by_fleet": fleets(rng),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "prefix_index.json")
    options = parser.parse_args()
    result = measure(options.seed)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    for row in result["match"]:
        held, blocks = row["held_by"], row["blocks"]
        print(
            f"match {blocks:>5} blocks on {held} workers: {row['us']['median']:8.1f} us, "
            f"dict of sets {row['baseline_us']['median']:8.1f} us"
        )


if __name__ == "__main__":
    main()
