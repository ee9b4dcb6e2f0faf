"""How does a lookup's cost grow with the number of workers and with the length of the prompt?"""

import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from bench.environment import distribution
from bench.prompts import Fleet, Prompt

from warmroute.block import Namespace, Tier, hash_blocks
from warmroute.prefix_index import PrefixIndex

PLAIN = Namespace()
BLOCK_SIZE = 16
TURNS = 3
"""Prompts that take turns where one is measured."""


def timed(call: Callable[[], object]) -> float:
    """Microseconds."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def filled(fleet: Fleet, prediction_limit: int = 1) -> PrefixIndex:
    """An index in which every worker of the fleet holds its prompts, as its events would have told."""
    index = PrefixIndex()
    for worker in range(fleet.workers):
        index.add_worker(worker, prediction_limit)
    for prompt in fleet.prompts():
        store(index, prompt, prompt.holders)
    return index


def store(index: PrefixIndex, prompt: Prompt, holders: Iterable[int]) -> None:
    names, ids = prompt.names(), prompt.token_ids()
    for worker in holders:
        index.store(worker, Tier.DEVICE, None, names, ids, BLOCK_SIZE)


def by_workers(fleets: list[int], blocks: int, repeats: int, seed: int) -> list[dict[str, Any]]:
    """Prompts of `blocks` blocks held by one, eight and all workers of each fleet; all have blocks of their own too."""
    rows = []
    for workers in fleets:
        index = filled(Fleet(workers=workers, own=1, shared=0, blocks=blocks, seed=seed))
        rng = random.Random(seed)
        for held_by in sorted({1, 8, workers}):
            prompts = stored(index, blocks, rng.sample(range(workers), held_by), rng)
            hashed, alone = times(index, prompts, repeats)
            row = {"workers": workers, "blocks": blocks, "held_by": held_by}
            rows.append({**row, "us": hashed["median"], "spread": {"us": hashed, "us_match": alone}})
    return rows


def by_prompt(lengths: list[int], workers: int, repeats: int, seed: int) -> list[dict[str, Any]]:
    """Prompts of each length in tokens, held by one or by all of `workers` workers, which have others too."""
    index = filled(Fleet(workers=workers, own=10, shared=0, blocks=1_000, seed=seed))
    rng, rows = random.Random(seed), []
    for tokens in lengths:
        for held_by in (1, workers):
            prompts = stored(index, tokens // BLOCK_SIZE, range(held_by), rng)
            hashed, alone = times(index, prompts, repeats)
            row: dict[str, Any] = {"tokens": tokens, "held_by": held_by, "us_match": alone["median"]}
            row |= {"us_hashing_included": hashed["median"]}
            rows.append({**row, "spread": {"us_hashing_included": hashed, "us_match": alone}})
    return rows


def stored(index: PrefixIndex, blocks: int, holders: Iterable[int], rng: random.Random) -> list[Prompt]:
    """New prompts, held by these workers."""
    made = [Prompt(rng.getrandbits(32), 0, blocks, BLOCK_SIZE, tuple(holders)) for _ in range(TURNS)]
    for prompt in made:
        store(index, prompt, prompt.holders)
    return made


def times(index: PrefixIndex, prompts: list[Prompt], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds of hashing the token ids and match, and of match alone. The prompts take turns."""
    ids = [prompt.token_ids() for prompt in prompts]
    hashes = [hash_blocks(each, BLOCK_SIZE, PLAIN) for each in ids]
    for prompt, asked in zip(prompts, hashes, strict=True):
        found = {worker: overlap.blocks for worker, overlap in index.match(asked, 0.0).items()}
        assert found == dict.fromkeys(prompt.holders, prompt.blocks)
    together, alone = [], []
    for turn in range(repeats):
        here, there = turn % len(prompts), (turn + 1) % len(prompts)
        together.append(timed(lambda: index.match(hash_blocks(ids[here], BLOCK_SIZE, PLAIN), 0.0)))  # noqa: B023
        alone.append(timed(lambda: index.match(hashes[there], 0.0)))  # noqa: B023
    return distribution(together), distribution(alone)
