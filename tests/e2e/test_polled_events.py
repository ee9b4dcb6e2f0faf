"""A worker that must be asked for its KV events, as TensorRT-LLM: followed and predicted like any other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from e2e.conversing import BLOCK_SIZE, Conversation, Turn, until_known
from e2e.processes import Running, engine, router, until, until_ready

_ENGINE = ("--block-size", str(BLOCK_SIZE), "--kv-events", "trtllm")


@asynccontextmanager
async def polled(worker: Running, folder: Path, path: str = "") -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """A router that asks `worker` for its events."""
    config = folder / "warmroute.toml"
    config.write_text(f'[[workers]]\nurl = "{worker.url}"\nkv_events = "{worker.url}{path}"\n')
    async with router([], "--config", str(config), "--admin-port", "same") as gate, aiohttp.ClientSession() as session:
        yield gate.url, session


async def settle(gate: str) -> None:
    """Wait until the router has been told everything: nothing new for longer than it pauses between two questions."""
    last_seq = None
    while True:
        page = await until(gate, "/warmroute/workers", lambda page: bool(page["workers"][0]["kv_events"]))
        (stream,) = page["workers"][0]["kv_events"]
        if stream["last_seq"] == last_seq:
            return
        last_seq = stream["last_seq"]
        await asyncio.sleep(0.2)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("path", ["", "/kv_cache_events"])
async def test_a_conversation_is_predicted_exactly(tmp_path: Path, path: str) -> None:
    async with engine(*_ENGINE) as worker, polled(worker, tmp_path, path) as (gate, session):
        await until_ready(gate, 1)
        conversation = Conversation(session, gate)
        for number in range(10):
            before = conversation.cached_blocks * BLOCK_SIZE
            turn = await conversation.turn([100 + number] * (17 + 5 * number))
            assert turn == Turn(before, before), f"turn {number}"
            await until_known(gate, conversation.cached_blocks)


@pytest.mark.timeout(120)
async def test_evicted_blocks_are_not_predicted(tmp_path: Path) -> None:
    async with engine(*_ENGINE, "--num-blocks", "60") as worker, polled(worker, tmp_path) as (gate, session):
        await until_ready(gate, 1)
        reported = 0
        for number in range(16):
            conversation = Conversation(session, gate)
            turn = await conversation.turn([100 + number % 4] * 32 + [200 + number] * (50 * (1 + number % 4)))
            assert turn.predicted == turn.reported, f"request {number}"
            reported += turn.reported
            await settle(gate)
        assert reported > 0
        page = await until(gate, "/warmroute/workers", lambda page: True)
    (stream,) = page["workers"][0]["kv_events"]
    assert (stream["complete"], stream["gaps"], stream["rejected"], stream["undecodable"]) == (True, 0, 0, 0)


@pytest.mark.timeout(120)
async def test_an_engine_that_restarts_is_known_to_be_empty(tmp_path: Path) -> None:
    async with engine(*_ENGINE) as first:
        port = int(first.url.rsplit(":", 1)[1])
        async with polled(first, tmp_path) as (gate, session):
            await until_ready(gate, 1)
            conversation = Conversation(session, gate)
            await conversation.turn([7] * 100)
            await until_known(gate, conversation.cached_blocks)
            first.kill()
            await first.process.wait()
            async with engine(*_ENGINE, port=port) as second:
                assert second.url == first.url
                await until(
                    gate,
                    "/warmroute/workers",
                    lambda page: (
                        page["workers"][0]["status"] == "ready"
                        and page["workers"][0]["kv_events"][0]["restarts"] == 1
                        and page["workers"][0]["kv_events"][0]["complete"]
                    ),
                )
                await until_known(gate, 0)
                again = Conversation(session, gate, said=list(conversation.said))
                assert await again.turn([3] * 5) == Turn(0, 0)
