"""How many bytes does a resident block take, and are they given back? Measured in a process that does nothing else.

Prints one JSON object. Started by bench/prefix_index.py, once for each way of removing.
"""

import argparse
import gc
import json
import math
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.prompts import Fleet, Prompt

from warmroute.block import Tier
from warmroute.prefix_index import PrefixIndex

BLOCKS = 1_000


def resident_bytes() -> int:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(fleet: Fleet, removal: str) -> dict[str, Any]:
    """Fills an index, removes everything again, and gives what was resident before, in between and afterwards."""
    index = PrefixIndex()
    for worker in range(fleet.workers):
        index.add_worker(worker, BLOCKS)
    # What the first calls allocate for good is not the blocks'.
    first = next(fleet.prompts())
    store(index, first)
    remove(index, first)
    start = state(index)
    for prompt in fleet.prompts():
        store(index, prompt)
    assert [index.blocks(worker) for worker in range(fleet.workers)] == [fleet.blocks_per_worker] * fleet.workers
    full = state(index)
    memory = index.stats().get("memory_bytes")
    empty(index, fleet, removal)
    if removal == "forget":
        index.add_worker(0, BLOCKS)
    live_on(index, first)
    end = state(index)
    return {
        "pairs": fleet.pairs,
        "rss_start": start["rss"],
        "rss_full": full["rss"],
        "rss_end": end["rss"],
        "nodes_start": start["nodes"],
        "nodes_full": full["nodes"],
        "nodes_end": end["nodes"],
        "bytes_per_block": (full["rss"] - start["rss"]) / fleet.pairs,
        "bytes_per_block_by_own_account": None if memory is None else memory / fleet.pairs,
        "bytes_at_end_by_own_account": index.stats().get("memory_bytes"),
    }


def state(index: PrefixIndex) -> dict[str, int]:
    gc.collect()
    return {"rss": resident_bytes(), "nodes": index.size()}


def store(index: PrefixIndex, prompt: Prompt) -> None:
    names, ids = prompt.names(), prompt.token_ids()
    for worker in prompt.holders:
        index.store(worker, Tier.DEVICE, None, names, ids, prompt.block_size)


def remove(index: PrefixIndex, prompt: Prompt) -> None:
    names = prompt.names()
    for worker in prompt.holders:
        index.remove(worker, Tier.DEVICE, names)


def live_on(index: PrefixIndex, prompt: Prompt) -> None:
    """A few seconds of a router with little to do: the allocator gives memory back a second after it was freed, and on
    such occasions."""
    for _ in range(150):
        for _ in range(20):
            store(index, prompt)
            remove(index, prompt)
        time.sleep(0.02)


def empty(index: PrefixIndex, fleet: Fleet, removal: str) -> None:
    """By `events`, prompt by prompt in any order, as engines evict; or by `forget`, worker by worker."""
    if removal == "forget":
        for worker in range(fleet.workers):
            index.forget(worker)
        return
    prompts = list(fleet.prompts())
    random.Random(fleet.seed).shuffle(prompts)
    for prompt in prompts:
        remove(index, prompt)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--removal", choices=("events", "forget"), required=True)
    options = parser.parse_args()
    workers = max(1, math.ceil(options.pairs / 100_000))
    fleet = Fleet(workers=workers, own=90, shared=10, blocks=BLOCKS, seed=options.seed)
    print(json.dumps(measure(fleet, options.removal)))


if __name__ == "__main__":
    main()
