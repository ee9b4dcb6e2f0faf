"""Our side of bench/kv_ingest.py: the index and the threads that keep it, as `warmroute serve` has them.

JSON lines on stdin and stdout. Meanwhile the main loop does what the router's does: every millisecond it looks prompts
up, and notes how late it was.
"""

import asyncio
import json
import os
import sys
import time
from array import array
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.environment import distribution

from warmroute.block import Namespace, hash_blocks
from warmroute.diagnostics.event_log import EventLog
from warmroute.gateway.serve import SWITCH_INTERVAL_S
from warmroute.kv_event import EventSource, Listeners, open_listener, threads_for
from warmroute.prefix_index import PrefixIndex

TICK_S = 0.001
BLOCK_SIZE = 16
PLAIN = Namespace()


class Follower:
    """One index that follows the publishers, and the loop beside it."""

    def __init__(self, endpoints: list[str]) -> None:
        self._index = PrefixIndex()
        self._listeners = Listeners(threads_for(len(os.sched_getaffinity(0))), type(asyncio.get_running_loop()))
        for lane, endpoint in enumerate(endpoints):
            self._index.add_worker(lane, 1)
            listener = open_listener(lane, EventSource(endpoint), self._index, EventLog(str(lane)))
            self._listeners.listen(lane, listener)

    def query(self, token_ids: list[int]) -> dict[int, int]:
        """Leading tokens of the prompt that each publisher holds."""
        found = self._index.match(hash_blocks(array("I", token_ids), BLOCK_SIZE, PLAIN), 0.0)
        return {lane: overlap.blocks * BLOCK_SIZE for lane, overlap in found.items()}

    def blocks(self) -> dict[int, int]:
        return {lane: self._index.blocks(lane) for lane in self._index.workers()}

    async def watch(self, probes: list[list[int]]) -> dict[str, Any]:
        """Until every publisher's probe is found: when each was (CLOCK_MONOTONIC), and what the ticks came late."""
        asked = [array("I", probe) for probe in probes]
        seen: dict[int, float] = {}
        late = []
        before = time.perf_counter()
        while len(seen) < len(probes):
            await asyncio.sleep(TICK_S)
            for publisher, ids in enumerate(asked):
                found = self._index.match(hash_blocks(ids, BLOCK_SIZE, PLAIN), 0.0)
                if publisher in found and publisher not in seen:
                    seen[publisher] = time.perf_counter()
            now = time.perf_counter()
            late.append(1_000 * max(0.0, now - before - TICK_S))
            before = now
        return {"seen_at": [seen[publisher] for publisher in sorted(seen)], "stall_ms": distribution(late)}

    async def idle(self, ticks: int) -> dict[str, float]:
        """The same lateness, in milliseconds, while nothing comes."""
        late = []
        before = time.perf_counter()
        for _ in range(ticks):
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            late.append(1_000 * max(0.0, now - before - TICK_S))
            before = now
        return distribution(late)

    async def close(self) -> None:
        await self._listeners.close()


async def answer(follower: Follower, asked: dict[str, Any]) -> dict[str, Any]:
    match asked:
        case {"do": "idle", "ticks": ticks}:
            return {"stall_ms": await follower.idle(ticks)}
        case {"do": "watch", "probes": probes}:
            tell({"watching": True})
            return await follower.watch(probes)
        case {"do": "query", "token_ids": token_ids}:
            return {"tokens": follower.query(token_ids)}
        case {"do": "blocks"}:
            return {"blocks": follower.blocks()}
    raise ValueError(asked)


def tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


async def follow() -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    follower = Follower(sys.argv[1:])
    tell({"ready": True})
    while line := await asyncio.to_thread(sys.stdin.readline):
        tell(await answer(follower, json.loads(line)))
    await follower.close()


if __name__ == "__main__":
    uvloop.run(follow())
