"""A whole router as `warmroute serve` has it, and beside it, on its loop, what notices when the loop is held up.

JSON lines on stdin and stdout: its address first, then to each `watch` the ticks that came late until `told`.
"""

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from warmroute.gateway.configuration import Configuration
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.serve import SWITCH_INTERVAL_S, running_gateway
from warmroute.worker import WorkerSpec

TICK_S = 0.001
"""The least that uvloop waits: of less it makes nothing, and a task that never rests is a load of its own."""


class Ticker:
    """Wakes every millisecond and notes how late it was."""

    def __init__(self) -> None:
        self._late: list[float] = []

    async def run(self) -> None:
        before = time.perf_counter()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            self._late.append(1_000 * max(0.0, now - before - TICK_S))
            before = now

    def taken(self) -> list[float]:
        """Milliseconds, of all ticks since this was asked last."""
        late, self._late = self._late, []
        return late


async def answer(asked: dict[str, Any], ticker: Ticker) -> dict[str, Any]:
    """`watch` begins anew; `told` gives the longest stall since then and the number of ticks; `idle` does both."""
    match asked["do"]:
        case "watch":
            ticker.taken()
            return {}
        case "idle":
            ticker.taken()
            await asyncio.sleep(asked["seconds"])
    # One more tick, so that a stall that has just ended is in it.
    await asyncio.sleep(2 * TICK_S)
    late = ticker.taken()
    return {"stall_ms": max(late), "ticks": len(late)}


async def route(tokenizer: str, worker: str) -> None:
    """With one worker, until stdin ends."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    config = ServeConfig(port=0, tokenizer=(tokenizer,), log_level="error", state_file="", seed=1)
    ticker = Ticker()
    async with running_gateway(Configuration(config, specs=(WorkerSpec(url=worker, block_size=16),))) as gateway:
        ticking = asyncio.create_task(ticker.run())
        print(json.dumps({"url": gateway.url}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await answer(json.loads(line), ticker)), flush=True)
        ticking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticking


if __name__ == "__main__":
    uvloop.run(route(*sys.argv[1:]))
