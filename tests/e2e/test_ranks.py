"""A worker with two data-parallel ranks: two caches behind one address, each known and chosen for itself."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from e2e.conversing import BLOCK_SIZE, Conversation, Turn, until_known
from e2e.processes import engine, router, until_ready

_ENGINE = ("--block-size", str(BLOCK_SIZE), "--data-parallel-size", "2", "--num-blocks", "400")


@asynccontextmanager
async def two_ranks(*flags: str) -> AsyncIterator[tuple[str, str, aiohttp.ClientSession]]:
    """(engine, router, session)"""
    async with (
        engine(*_ENGINE, *flags) as worker,
        router([worker.url], "--admin-port", "same") as gate,
        aiohttp.ClientSession() as session,
    ):
        await until_ready(gate.admin_url, 1)
        yield worker.url, gate.url, session


async def prompt_tokens(session: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """Prompt tokens that each rank has processed."""
    async with session.get(url + "/metrics") as response:
        text = await response.text()
    found = re.findall(r'^vllm:prompt_tokens_total\{engine="(\d)",.*\} (\S+)$', text, re.MULTILINE)
    return {rank: float(value) for rank, value in found}


@pytest.mark.timeout(120)
async def test_a_conversation_stays_on_its_rank_and_is_predicted_exactly() -> None:
    async with two_ranks() as (worker, gate, session):
        conversation = Conversation(session, gate)
        for number in range(12):
            before = conversation.cached_blocks * BLOCK_SIZE
            turn = await conversation.turn([100 + number] * (7 + 5 * number))
            assert turn == Turn(before, before), f"turn {number}"
            await until_known(gate, conversation.cached_blocks)
        used = await prompt_tokens(session, worker)
    assert sorted(value > 0 for value in used.values()) == [False, True], "one rank has all turns"


@pytest.mark.timeout(120)
async def test_what_one_rank_holds_is_asked_from_that_rank() -> None:
    async with two_ranks() as (worker, gate, session):
        for rank in (1, 0):
            direct = Conversation(session, worker)
            await direct.turn([50 + rank] * 100, rank=rank)
            await until_known(gate, direct.cached_blocks, rank)
            through = Conversation(session, gate, said=list(direct.said))
            cached = direct.cached_blocks * BLOCK_SIZE
            assert await through.turn([3] * 5) == Turn(cached, cached)


@pytest.mark.timeout(120)
async def test_a_rank_that_the_client_names_is_the_one_that_is_predicted() -> None:
    async with two_ranks() as (worker, gate, session):
        direct = Conversation(session, worker)
        await direct.turn([50] * 100, rank=1)
        await until_known(gate, direct.cached_blocks, 1)
        for rank, cached in ((0, 0), (1, direct.cached_blocks * BLOCK_SIZE)):
            through = Conversation(session, gate, said=list(direct.said))
            assert await through.turn([3] * 5, rank=rank) == Turn(cached, cached)


@pytest.mark.timeout(120)
async def test_load_is_spread_over_the_ranks() -> None:
    async with two_ranks("--speedup", "2") as (worker, gate, session):
        conversations = [Conversation(session, gate) for _ in range(8)]
        for number in range(3):
            turns = [each.turn([60 + at] * 200, 40) for at, each in enumerate(conversations)]
            done = await asyncio.gather(*turns)
            assert number == 0 or sum(turn.reported for turn in done) > 0
        used = await prompt_tokens(session, worker)
        total = sum(used.values())
        assert all(value > 0.2 * total for value in used.values()), used
        page = await until_known(gate, sum(each.cached_blocks for each in conversations))
    (reported,) = page["workers"]
    assert [each["rank"] for each in reported["kv_events"]] == [0, 1]
    assert all(each["blocks"] > 0 for each in reported["kv_events"])
