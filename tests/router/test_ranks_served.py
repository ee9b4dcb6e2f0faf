"""An engine of several data-parallel ranks, each with a cache of its own: the rank that holds the prefix gets it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from e2e.processes import engine, router, until_ready

_MODEL = "warmroute-tiny"


def prompt_of(conversation: int, turns: int) -> list[int]:
    """A prompt that begins as the same conversation's shorter ones do, and as no other's."""
    return [1 + conversation * 500 + i % 499 for i in range(160 * turns)]


@dataclass(frozen=True, slots=True)
class Front:
    """A client before a router."""

    session: aiohttp.ClientSession
    url: str

    async def ask(self, conversation: int, turns: int, **headers: str) -> tuple[int, int]:
        """A growing prompt of a conversation: cached tokens as the router predicted and as the engine reported."""
        prompt = prompt_of(conversation, turns)
        body: dict[str, Any] = {"model": _MODEL, "prompt": prompt, "max_tokens": 4}
        async with self.session.post(f"{self.url}/v1/completions", json=body, headers=headers) as response:
            answer = await response.json()
            assert response.status == 200, answer
            details = answer["usage"]["prompt_tokens_details"]
            return int(response.headers["x-warmroute-cached-tokens"]), (details or {}).get("cached_tokens", 0)

    async def explain(self, conversation: int, turns: int) -> dict[str, Any]:
        """The decision that this prompt would get."""
        prompt = prompt_of(conversation, turns)
        body = {"model": _MODEL, "prompt": prompt}
        async with self.session.post(f"{self.url}/warmroute/explain", json=body) as response:
            told: dict[str, Any] = await response.json()
            return told


@asynccontextmanager
async def fronted(*flags: str) -> AsyncIterator[Front]:
    async with (
        engine("--data-parallel-size", "3", *flags) as worker,
        router([worker.url], "--admin-port", "same") as gate,
    ):
        await until_ready(gate.admin_url, 1)
        async with aiohttp.ClientSession() as session:
            yield Front(session, gate.url)


async def test_each_conversation_stays_with_its_rank_and_is_predicted_exactly() -> None:
    async with fronted() as front:
        first = await asyncio.gather(*(front.ask(conversation, 1) for conversation in range(6)))
        assert set(first) == {(0, 0)}
        for turns in (2, 3):
            for conversation in range(6):
                predicted, reported = await front.ask(conversation, turns)
                assert predicted == reported == 160 * (turns - 1)
        ranks = [(await front.explain(conversation, 4))["rank"] for conversation in range(6)]
        assert set(ranks) == {0, 1, 2}, "conversations that begin together are spread over the ranks"


async def test_a_rank_that_the_client_names_gets_the_request() -> None:
    async with fronted() as front:
        await front.ask(1, 2, **{"X-data-parallel-rank": "2"})
        assert (await front.explain(1, 3))["rank"] == 2
        assert await front.ask(1, 3, **{"X-data-parallel-rank": "0"}) == (0, 0)
