"""An engine that writes down what it is asked and by whom, and wants a key if it is told to; and a router before it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration, ReadConfiguration
from warmroute.gateway.options import ServeConfig, with_defaults
from warmroute.gateway.serve import Gateway, running_gateway
from warmroute.worker import WorkerSpec, WorkerStatus

MODEL = "m"
BODY: dict[str, Any] = {"model": MODEL, "prompt": [1, 2, 3], "max_tokens": 1}


@dataclass
class ListeningEngine:
    """`key`: what `/v1/` is kept for, as vLLM does with `--api-key`. `pages` are answered before its own."""

    key: str | None = None
    tls: ssl.SSLContext | None = None
    pages: dict[str, web.Response] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    host: str = "127.0.0.1"

    def headers_at(self, path: str) -> list[dict[str, str]]:
        """The headers, by their names in small letters, of each request for `path`."""
        return [headers for asked, headers in self.asked if asked == path]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.path, headers))
        if request.path in self.pages:
            page = self.pages[request.path]
            return web.Response(status=page.status, body=page.body, headers=page.headers)
        wanted = None if self.key is None else f"Bearer {self.key}"
        if wanted is not None and request.path.startswith("/v1/") and headers.get("authorization") != wanted:
            return web.json_response({"error": {"message": "no"}}, status=401)
        match request.path:
            case "/health":
                return web.Response()
            case "/v1/models":
                return web.json_response({"data": [{"id": MODEL, "max_model_len": 4096}]})
            case "/v1/completions" | "/v1/messages":
                return web.json_response({"choices": [{"text": "x", "index": 0}]})
        return web.Response(status=404)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Listens; gives the URL."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        listener = socket.create_server((self.host, 0))
        await web.SockSite(runner, listener, ssl_context=self.tls).start()
        self.url = f"{'http' if self.tls is None else 'https'}://{self.host}:{listener.getsockname()[1]}"
        try:
            yield self.url
        finally:
            await runner.cleanup()


@asynccontextmanager
async def gated(
    *engines: ListeningEngine,
    access: AccessOptions | None = None,
    read: ReadConfiguration | None = None,
    polled: bool = False,
    **options: Any,
) -> AsyncIterator[tuple[Gateway, aiohttp.ClientSession]]:
    """A router in front of the engines, looking at each of them often, and a client. `polled`: for their events too."""
    config = ServeConfig(port=0, probe_interval_s=0.05, grace_s=0.1, seed=1, state_file="", **options)
    specs = tuple(
        with_defaults(WorkerSpec(engine.url, kv_events=engine.url if polled else None), config) for engine in engines
    )
    told = Configuration(config, specs=specs, access=access or AccessOptions())
    async with running_gateway(told, read=read) as gateway, aiohttp.ClientSession() as client:
        yield gateway, client


async def until_all_are(gateway: Gateway, status: WorkerStatus = WorkerStatus.READY) -> None:
    """Wait until every worker has this status."""
    async with asyncio.timeout(10):
        while not all(worker.status is status for worker in gateway.router.table):
            await asyncio.sleep(0.01)
