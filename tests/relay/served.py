"""A relay server and workers made of aiohttp, each open for the length of a test."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from warmroute.gateway.relay import Arrival, Outcome, RelayOptions, RelayServer

WorkerHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Decide = Callable[[RelayServer, Arrival], Awaitable[None]]

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}


@dataclass(slots=True)
class Served:
    """A relay server in front of which a client stands."""

    server: RelayServer
    url: str
    client: aiohttp.ClientSession
    outcomes: list[Outcome] = field(default_factory=list)

    async def outcome(self) -> Outcome:
        """The one outcome so far, or the next one."""
        await until(lambda: bool(self.outcomes))
        assert len(self.outcomes) == 1
        return self.outcomes[0]


@asynccontextmanager
async def serving(decide: Decide, options: RelayOptions | None = None) -> AsyncIterator[Served]:
    """A relay on a free port whose requests are answered by `decide`."""
    outcomes: list[Outcome] = []
    server = RelayServer(options or RelayOptions(), on_outcome=outcomes.append)

    async def on_arrival(arrival: Arrival) -> None:
        await decide(server, arrival)

    host, port = await server.start("127.0.0.1", 0, on_arrival)
    try:
        async with aiohttp.ClientSession() as client:
            yield Served(server, f"http://{host}:{port}", client, outcomes)
    finally:
        await server.close(grace_s=1.0)


@asynccontextmanager
async def working(handler: WorkerHandler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A worker that answers every request by `handler`, over `tls` if given; gives its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    # A worker that notices a client that left, as vLLM's does.
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener, ssl_context=tls).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await runner.cleanup()


def nobody() -> str:
    """A URL on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def until(happened: Callable[[], bool], within_s: float = 5) -> None:
    """Wait for what must happen soon."""
    async with asyncio.timeout(within_s):
        while not happened():
            await asyncio.sleep(0.005)


async def answer_json(request: web.Request) -> web.StreamResponse:
    """An answer with usage, and with what came."""
    body = await request.text()
    return web.json_response({"echo": body, "path": request.path_qs, "usage": USAGE})


async def stream_events(request: web.Request) -> web.StreamResponse:
    """Three events, the usage and the end, each in a chunk of its own."""
    await request.read()
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in ['{"n":1}', '{"n":2}', '{"n":3}', '{"usage":{"prompt_tokens":5}}', "[DONE]"]:
        await response.write(f"data: {event}\n\n".encode())
    return response
