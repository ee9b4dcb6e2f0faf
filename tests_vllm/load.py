"""The phases of the load: who is sent when. What comes back is kept as it is; judging it is the report's part."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests_vllm.conversations import Body, Conversation, Dialect, Request, question
from tests_vllm.exchange import Exchange

Send = Callable[[Request], Awaitable[Exchange]]

_EDGE_LENGTHS = (31, 32, 33, 63, 64, 65, 96, 97, 128)
_EDGE_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Phase:
    """The exchanges of one part of the load. `exact`: each request was alone, so its prediction has to be right."""

    name: str
    exchanges: tuple[Exchange, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Load:
    """Sends phases through `send`. `pause_s` lets a worker's events reach the router before the next request."""

    send: Send
    rng: random.Random
    pause_s: float

    async def sequential(self, name: str, conversations: Sequence[Conversation], turns: int) -> Phase:
        """`turns` turns of each conversation, one request at a time, going round the conversations."""
        exchanges = [await self._alone(c) for _ in range(turns) for c in conversations]
        return Phase(name, tuple(exchanges), exact=True)

    async def concurrent(self, name: str, conversations: Sequence[Conversation], turns: int) -> Phase:
        """All conversations at once, each its turns in order, with random pauses for reading in between."""
        each = await asyncio.gather(*(self._through(c, turns, random.Random(self.rng.random())) for c in conversations))
        return Phase(name, tuple(exchange for exchanges in each for exchange in exchanges), exact=False)

    async def repeated(self, name: str, requests: Sequence[Request], times: int) -> Phase:
        """Each request `times` times in a row, one at a time."""
        exchanges = []
        for request in requests:
            for _ in range(times):
                exchanges.append(await self.send(request))
                await asyncio.sleep(self.pause_s)
        return Phase(name, tuple(exchanges), exact=True)

    async def block_edges(self, name: str, model: str, vocabulary: int) -> Phase:
        """Prompts whose lengths lie at and around multiples of the block size, several times each."""
        bodies: list[Body] = [
            {"model": model, "max_tokens": 4, "temperature": 0, "prompt": self._token_ids(length, vocabulary)}
            for length in _EDGE_LENGTHS
        ]
        requests = [
            Request("/v1/completions", body, f"{len(body['prompt'])} tokens", Dialect.COMPLETION_TOKENS)
            for body in bodies
        ]
        return await self.repeated(name, requests, _EDGE_REPEATS)

    async def _alone(self, conversation: Conversation) -> Exchange:
        exchange = await self._turn(conversation, self.rng)
        await asyncio.sleep(self.pause_s)
        return exchange

    async def _through(self, conversation: Conversation, turns: int, rng: random.Random) -> list[Exchange]:
        exchanges = []
        for _ in range(turns):
            exchanges.append(await self._turn(conversation, rng))
            await asyncio.sleep(rng.uniform(0, 4 * self.pause_s))
        return exchanges

    async def _turn(self, conversation: Conversation, rng: random.Random) -> Exchange:
        exchange = await self.send(conversation.ask(question(rng)))
        conversation.answered(exchange.text, list(exchange.token_ids))
        return exchange

    def _token_ids(self, length: int, vocabulary: int) -> list[int]:
        # The lowest ids are special tokens in most tokenizers, the end of the text among them.
        return [self.rng.randrange(300, vocabulary) for _ in range(length)]
