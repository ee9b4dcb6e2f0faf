"""The example that the router was made for, over real sockets: engines as processes, real KV events, a real router."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from e2e.processes import engine, router, until, until_ready

_BLOCK_SIZE = 16
_MODEL = "warmroute-tiny"


def blocks(names: str) -> list[int]:
    """One block of token ids for each letter."""
    return [20 + 40 * (ord(name) - ord("A")) + offset for name in names for offset in range(_BLOCK_SIZE)]


async def ask(session: aiohttp.ClientSession, url: str, names: str, **options: Any) -> tuple[str | None, int, int]:
    """Send the blocks and one token more: (worker, cached tokens predicted, cached tokens as the engine says)."""
    body = {"model": _MODEL, "prompt": [*blocks(names), 7], "max_tokens": 1} | options
    async with session.post(f"{url}/v1/completions", json=body) as response:
        answer = await response.json()
        assert response.status == 200, answer
    reported = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    predicted = int(response.headers.get("x-warmroute-cached-tokens", -1))
    return response.headers.get("x-warmroute-worker"), predicted, reported


async def known_blocks(url: str, expected: dict[str, int]) -> None:
    """Wait until the router has heard of so many blocks on each worker."""
    await until(
        url,
        "/warmroute/workers",
        lambda page: {worker["url"]: worker["blocks"] for worker in page["workers"]} == expected,
    )


@pytest.mark.timeout(120)
async def test_the_founding_example() -> None:
    async with AsyncExitStack() as stack:
        a, b, c = [(await stack.enter_async_context(engine("--block-size", "16"))).url for _ in range(3)]
        session = await stack.enter_async_context(aiohttp.ClientSession())
        # A holds two blocks of the coming prompt, C three, B four; the router was not there when they were stored.
        await ask(session, a, "AB")
        await ask(session, c, "ABC")
        await ask(session, b, "ABCD")
        gate = (await stack.enter_async_context(router([a, b, c], "--admin-port", "same", "--show-addresses"))).url
        await until_ready(gate, 3)
        await known_blocks(gate, {a: 2, b: 4, c: 3})

        assert await ask(session, gate, "ABCDE") == (b, 4 * _BLOCK_SIZE, 4 * _BLOCK_SIZE)
        await known_blocks(gate, {a: 2, b: 5, c: 3})
        assert await ask(session, gate, "ABCDEF") == (b, 5 * _BLOCK_SIZE, 5 * _BLOCK_SIZE)

        # A long queue on B, put there by somebody else: the router reads it from B's metrics.
        crowd = [asyncio.create_task(ask(session, b, "XYZ"[i % 3], max_tokens=400, ignore_eos=True)) for i in range(60)]
        await until(
            gate, "/warmroute/workers", lambda page: any(w["url"] == b and w["requests"] > 50 for w in page["workers"])
        )
        worker, _, _ = await ask(session, gate, "ABCDEF")
        assert worker in (a, c), "an idle worker wins over the full hit behind a long queue"

        worker, predicted, reported = await ask(session, gate, "PQR")
        assert worker in (a, c), "with no match anywhere the cheapest worker is one that is idle"
        assert (predicted, reported) == (0, 0)
        for task in crowd:
            task.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
