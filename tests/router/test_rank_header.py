"""The rank that was chosen is told to an engine of several, in a header; a client's own word is left as it is."""

import random

import pytest
from aiohttp import web

from relay.served import answer_json, serving, working
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.reading import Reader
from warmroute.gateway.relay import Arrival, RelayServer
from warmroute.openai_api import Prompt
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Router
from warmroute.tokenizer import NoTokens, Original, TokenIds
from warmroute.worker import WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable


class Blind:
    """A source of tokens that knows nothing."""

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        return NoTokens.NO_TOKENIZER


@pytest.mark.parametrize(
    ("ranks", "said", "heard"),
    [
        ([None], [], []),
        ([0], [], []),
        ([3, 5], [], ["3"]),
        ([3, 5], ["5"], ["5"]),
        ([3, 5], ["9"], ["9"]),
        ([3, 5], ["any"], ["any"]),
        ([3, 5], ["-1"], ["-1"]),
        ([3, 5], ["9" * 40], ["9" * 40]),
        ([3], ["7"], ["7"]),
    ],
)
async def test_which_rank_an_engine_is_told(ranks: list[int | None], said: list[str], heard: list[str]) -> None:
    seen: list[tuple[list[str], bytes]] = []

    async def engine(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers.getall("X-data-parallel-rank", []), await request.read()))
        return await answer_json(request)

    async with working(engine) as url:
        router = Router(WorkerTable(), PrefixIndex(), POLICIES["warmroute"]())
        worker = router.add_worker(WorkerSpec(url))
        router.learn(worker, WorkerFacts({"m": False}, 16, 100))
        router.table.set_status(worker, WorkerStatus.READY)
        lanes = router.set_ranks(worker, ranks)
        for lane in lanes[1:]:
            router.table.book(worker, "other", 1_000, None, lane)

        async def decide(relay: RelayServer, arrival: Arrival) -> None:
            reader = Reader(Blind(), None, random.Random(0))
            proxy = Proxy(router, relay, reader, random.Random(0), 1, lambda *_: None, lambda _: None)
            await proxy.handle(arrival)

        body = b'{"model": "m",  "prompt": "1.0 stays 1.0", "n": 1.0}'
        async with serving(decide) as served:
            headers = [("X-Data-Parallel-Rank", value) for value in said]
            async with served.client.post(f"{served.url}/v1/completions", data=body, headers=headers) as response:
                assert response.status == 200
    assert seen == [(heard, body)]
    assert worker.requests == len(lanes) - 1
    router.table.check_integrity()
