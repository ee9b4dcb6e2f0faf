"""A router over sockets whose workers are taken as they are: without looks at them, and without their tokens."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from warmroute.admission import FailoverOptions
from warmroute.gateway.failover import apply_failover
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.reading import Reader
from warmroute.gateway.relay import RelayOptions, RelayServer
from warmroute.openai_api import Prompt
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Router
from warmroute.tokenizer import NoTokens, Original
from warmroute.worker import Worker, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

MODEL = "m"
BODY = {"model": MODEL, "prompt": "hello"}


Answer = tuple[int, str, Mapping[str, str]]
"""Status, body, headers."""


class Blind:
    """Tells no tokens."""

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> NoTokens:
        return NoTokens.NO_TOKENIZER


@dataclass
class Routed:
    """The router, and a client before it. `suspected` and `looked_at` are the workers that the proxy told of."""

    url: str
    client: aiohttp.ClientSession
    router: Router
    proxy: Proxy
    relay: RelayServer
    workers: list[Worker]
    suspected: list[Worker] = field(default_factory=list)
    looked_at: list[Worker] = field(default_factory=list)

    async def post(self, path: str = "/v1/completions", **headers: str) -> Answer:
        """One request."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.post(self.url + path, json=BODY, headers=named) as response:
            return response.status, await response.text(), response.headers


@asynccontextmanager
async def routed(
    *specs: WorkerSpec | str,
    options: FailoverOptions | None = None,
    relay_options: RelayOptions | None = None,
    policy: str = "least-loaded",
    max_attempts: int = 3,
) -> AsyncIterator[Routed]:
    """Every worker is ready from the beginning; at the end nothing is left over."""
    router = Router(WorkerTable(), PrefixIndex(), POLICIES[policy]())
    relay, rng = RelayServer(relay_options or RelayOptions()), random.Random(1)
    suspected: list[Worker] = []
    looked_at: list[Worker] = []
    proxy = Proxy(
        router,
        relay,
        Reader(Blind(), None, rng),
        rng,
        max_attempts,
        lambda worker, _: suspected.append(worker),
        looked_at.append,
    )
    apply_failover(options or FailoverOptions(slow_start_s=0.0), router, proxy)
    workers = [ready(router, spec) for spec in specs]
    host, port = await relay.start("127.0.0.1", 0, proxy.arrived)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            yield Routed(f"http://{host}:{port}", client, router, proxy, relay, workers, suspected, looked_at)
    finally:
        await relay.close(grace_s=1.0)
    assert relay.counts.callback_errors == 0
    assert relay.counts.unanswered == 0
    router.table.check_integrity()
    assert [worker.requests for worker in router.table] == [0] * len(router.table)
    assert proxy.room is not None
    proxy.room.check_integrity()
    assert len(proxy.room) == 0


def ready(router: Router, spec: WorkerSpec | str) -> Worker:
    """Take a worker in as one that is well."""
    worker = router.add_worker(spec if isinstance(spec, WorkerSpec) else WorkerSpec(spec))
    router.learn(worker, WorkerFacts({MODEL: False}, 16, 1000))
    router.table.set_status(worker, WorkerStatus.READY)
    return worker


@dataclass
class Answering:
    """A worker that answers as it is told to; counts what came."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"choices": []}'
    open: asyncio.Event = field(default_factory=asyncio.Event)
    came: int = 0
    under_way: int = 0
    most_under_way: int = 0
    left: int = 0

    def __post_init__(self) -> None:
        self.open.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.came += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self.under_way -= 1
        return web.Response(status=self.status, text=self.body, headers=self.headers, content_type="application/json")


@asynccontextmanager
async def broken(most_bytes: int = 0) -> AsyncIterator[tuple[str, list[int]]]:
    """A worker that takes a request and closes the connection, after the beginning of an answer where that is asked
    for; gives its URL and a list that grows with each request.
    """
    came: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        came.append(len(came))
        if most_bytes:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\n")
            writer.write(b"x" * most_bytes)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", came


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)
