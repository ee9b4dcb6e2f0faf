"""Dynamo's radix tree under the measurements of bench/prefix_index.py. Runs in .venv-dynamo, driven over stdin.

One JSON object per line asks, one answers. Its every call crosses to a thread of its own and back; `floor` measures how
much of a lookup that is.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from bench.prompts import Fleet, Prompt, chunks

_core: Any = import_module("dynamo._core")

BLOCK_SIZE = 16


class Tree:
    """A tree with the prompts of a fleet, and the prompts that are asked for."""

    def __init__(self) -> None:
        self._tree: Any = _core.RadixTree()
        self._asked: dict[str, list[tuple[Prompt, list[int]]]] = {}
        self._rng = random.Random(0)
        self._events = 0

    def version(self) -> dict[str, Any]:
        return {"version": metadata.version("ai-dynamo-runtime")}

    def pin(self, cores: list[int]) -> dict[str, Any]:
        """Puts this process, the tree's thread included, on these cores."""
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), cores)
        return {"cores": cores}

    def fill(self, fleet: dict[str, int], at_most: int) -> dict[str, Any]:
        """Stores what the fleet holds; keeps `at_most` prompts of each kind to be looked up."""
        made = Fleet(**fleet)
        for prompt in made.prompts():
            (event,) = self._stores(prompt, prompt.blocks)
            for worker in prompt.holders:
                self._tree.apply_event(worker, event)
        for kind in ("shared", "disjoint"):
            self._asked[kind] = [(prompt, _hashes(prompt.token_ids())) for prompt in made.asked(kind, at_most)]
        return {"pairs": made.pairs}

    def lookups(self, kind: str, count: int) -> dict[str, Any]:
        """Microseconds of each of `count` lookups; others go between them. Also whether all were found as stored."""
        times = []
        for _ in range(count):
            self._tree.find_matches(self._rng.choice(self._asked[kind])[1])
            prompt, hashes = self._rng.choice(self._asked[kind])
            start = time.perf_counter_ns()
            found = self._tree.find_matches(hashes)
            times.append((time.perf_counter_ns() - start) / 1e3)
            assert found.scores == {(worker, 0): prompt.blocks for worker in prompt.holders}, prompt
        return {"us": times}

    def hashes(self, kind: str, count: int) -> dict[str, Any]:
        """Microseconds that Dynamo takes to hash the token ids of a prompt."""
        listed = self._rng.choice(self._asked[kind])[0].token_ids().tolist()
        return {"us": [_us(lambda: _core.compute_block_hash_for_seq(listed, BLOCK_SIZE)) for _ in range(count)]}

    def floor(self, count: int) -> dict[str, Any]:
        """Microseconds of a lookup of one hash in an empty tree: the way there and back."""
        empty = _core.RadixTree()
        return {"us": [_us(lambda: empty.find_matches([1])) for _ in range(count)]}

    def store(self, fleet: dict[str, int], event_blocks: int) -> dict[str, Any]:
        """Blocks per second into a worker that is new, and forgotten afterwards."""
        prompts = list(Fleet(**fleet).prompts())
        events = [event for prompt in prompts for event in self._stores(prompt, event_blocks)]
        worker = 1_000_000
        start = time.perf_counter()
        for event in events:
            self._tree.apply_event(worker, event)
        self._tree.find_matches([1])
        elapsed = time.perf_counter() - start
        assert self._tree.find_matches(_hashes(prompts[-1].token_ids())).scores == {(worker, 0): prompts[-1].blocks}
        self._tree.remove_worker(worker)
        return {"blocks_per_s": sum(prompt.blocks for prompt in prompts) / elapsed}

    def _stores(self, prompt: Prompt, event_blocks: int) -> list[bytes]:
        return [self._store(*event) for event in chunks(prompt, event_blocks)]

    def _store(self, parent: int | None, names: Any, ids: Any) -> bytes:
        self._events += 1
        blocks = [{"block_hash": name, "tokens_hash": tokens} for name, tokens in zip(names, _hashes(ids), strict=True)]
        data = {"stored": {"parent_hash": parent, "blocks": blocks}}
        return json.dumps({"event_id": self._events, "dp_rank": 0, "data": data}).encode()


def _hashes(ids: Any) -> list[int]:
    found: list[int] = _core.compute_block_hash_for_seq(ids.tolist(), BLOCK_SIZE)
    return found


def _us(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e3


def main() -> None:
    tree = Tree()
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(tree, asked.pop("do"))(**asked)), flush=True)


if __name__ == "__main__":
    main()
