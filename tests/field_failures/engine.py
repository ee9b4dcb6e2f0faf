"""An engine that a test plays: HTTP pages as vLLM has them, a KV-event publisher of its own, and faults on demand."""

import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from field_failures.heard import BLOCK_SIZE
from kv_event.publisher import Publisher
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.serve import Gateway, running_gateway
from warmroute.router import Refusal, RouteRequest, WorkerCost
from warmroute.worker import WorkerSpec

MODEL = "m"
_METRICS = 'vllm:cache_config_info{{block_size="{}",num_gpu_blocks="1000"}} 1\nvllm:num_requests_running 0\n'


@dataclass
class Engine:
    """`publishers`: one for each data-parallel rank; none for an engine that publishes no events."""

    publishers: Sequence[Publisher] = ()
    healthy: bool = True
    block_size: int = BLOCK_SIZE
    usage: Any = None
    url: str = ""
    prompts: list[Any] = field(default_factory=list)

    def _sources(self) -> dict[str, dict[str, str]]:
        return {
            str(rank): {"publisher": "zmq", "endpoint": one.endpoint, "replay_endpoint": one.replay_endpoint}
            for rank, one in enumerate(self.publishers)
        }

    async def answer(self, request: web.Request) -> web.Response:
        match request.path:
            case "/health":
                return web.Response(status=200 if self.healthy else 503)
            case "/v1/models":
                return web.json_response({"data": [{"id": MODEL, "max_model_len": 4096}]})
            case "/metrics":
                return web.Response(text=_METRICS.format(self.block_size))
            case "/kv_event_sources" if self.publishers:
                return web.json_response(self._sources())
            case "/v1/completions":
                self.prompts.append((await request.json())["prompt"])
                told = {} if self.usage is None else {"usage": self.usage}
                return web.json_response({"choices": [{"text": "x", "index": 0}], **told})
        return web.Response(status=404)

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[str]:
        """Listens; gives the URL."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", port))
        await web.SockSite(runner, listener).start()
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            yield self.url
        finally:
            await runner.cleanup()


@asynccontextmanager
async def routing(*engines: Engine) -> AsyncIterator[Gateway]:
    """A router in front of these engines, on free ports, looking at each of them often."""
    config = ServeConfig(port=0, probe_interval_s=0.05, grace_s=0.1, seed=1, state_file="")
    async with running_gateway(
        Configuration(config, specs=tuple(WorkerSpec(engine.url) for engine in engines))
    ) as gateway:
        yield gateway


def warm_blocks(gateway: Gateway, token_ids: Sequence[int]) -> dict[str, int]:
    """The leading blocks of a prompt on each worker that has any, as a decision would take them."""
    return _best(gateway, token_ids, lambda line: line.overlap.blocks)


def warm_tokens(gateway: Gateway, token_ids: Sequence[int]) -> dict[str, int]:
    """As `warm_blocks`, in tokens."""
    return _best(gateway, token_ids, lambda line: line.cached_tokens)


def _best(gateway: Gateway, token_ids: Sequence[int], figure: Callable[[WorkerCost], int]) -> dict[str, int]:
    """Of each worker the figure of its best lane, where there is any."""
    request = RouteRequest("asked", MODEL, token_ids, len(token_ids))
    verdict = gateway.router.explain(request, time.monotonic(), random.Random(1))
    if isinstance(verdict, Refusal):
        return {}
    figures: dict[str, int] = {}
    for line in verdict.considered:
        figures[line.worker] = max(figures.get(line.worker, 0), figure(line))
    return {worker: best for worker, best in figures.items() if best}
