"""A conversation through a router: each turn sends all that was said, answers included, and some tokens more."""

from dataclasses import dataclass, field
from typing import Any

import aiohttp

from e2e.processes import until

BLOCK_SIZE = 16
_MODEL = "warmroute-tiny"


@dataclass(frozen=True, slots=True)
class Turn:
    """Cached tokens as the router predicted them and as the engine reports them."""

    predicted: int
    reported: int


@dataclass(slots=True)
class Conversation:
    """`said` are the token ids of prompts and answers so far."""

    session: aiohttp.ClientSession
    url: str
    said: list[int] = field(default_factory=list)

    async def turn(self, tokens: list[int], answer_tokens: int = 20, rank: int | None = None) -> Turn:
        prompt = [*self.said, *tokens]
        body = {
            "model": _MODEL,
            "prompt": prompt,
            "max_tokens": answer_tokens,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        headers = {} if rank is None else {"X-data-parallel-rank": str(rank)}
        async with self.session.post(f"{self.url}/v1/completions", json=body, headers=headers) as response:
            answer = await response.json()
            assert response.status == 200, answer
        self.said = [*prompt, *answer["choices"][0]["token_ids"]]
        reported = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        return Turn(int(response.headers.get("x-warmroute-cached-tokens", -1)), reported)

    @property
    def cached_blocks(self) -> int:
        """Full blocks that the engine has computed: the last token of an answer never enters the cache."""
        return max(0, len(self.said) - 1) // BLOCK_SIZE


async def until_known(gate: str, blocks: int, rank: int | None = None) -> dict[str, Any]:
    """Wait until the router has heard of that many blocks of its only worker, or of one rank of it."""

    def known(page: dict[str, Any]) -> bool:
        (worker,) = page["workers"]
        lanes = [each["blocks"] for each in worker["kv_events"] if rank is None or each["rank"] == rank]
        return bool(lanes) and sum(lanes) == blocks

    page: dict[str, Any] = await until(gate, "/warmroute/workers", known)
    return page
