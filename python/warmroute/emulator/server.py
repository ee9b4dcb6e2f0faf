"""One emulated engine, from its options to its sockets."""

import asyncio
import errno
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from warmroute.emulator import service_routes
from warmroute.emulator.answer import AnswerBook, Codec
from warmroute.emulator.embeddings import embeddings
from warmroute.emulator.engine_server import SERVER, EngineServer
from warmroute.emulator.generate import generating
from warmroute.emulator.kv_publisher import KvPublisher
from warmroute.emulator.kv_wire import KvWire
from warmroute.emulator.metrics import EngineMetrics
from warmroute.emulator.options import EmulatorOptions
from warmroute.emulator.prompt_ids import PromptReader
from warmroute.emulator.real_time import RealTimeEngine
from warmroute.emulator.refusal import error_body, shaped
from warmroute.emulator.token_routes import detokenize, tokenize
from warmroute.engine_model import EngineModel, KvChange
from warmroute.errors import AddressInUse, ConfigError
from warmroute.openai_api import Endpoint
from warmroute.tokenizer import LocalTokenizer

_log = logging.getLogger(__name__)

_MOST_BODY_BYTES = 256 * 1024 * 1024
# Requests still running at the end are aborted after this long, as vLLM aborts them.
_SHUTDOWN_S = 0.2

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that answers at `url`; `kv_event_sources` is empty without KV events."""

    url: str
    model_name: str
    kv_event_sources: dict[str, dict[str, Any]]
    engine: RealTimeEngine
    _work: Sequence["asyncio.Task[None]"]

    async def failed(self) -> None:
        """Wait until a part of the engine ends by an error, and raise it; cancel to stop waiting."""
        await asyncio.gather(*(asyncio.shield(task) for task in self._work))


@asynccontextmanager
async def serve_engine(options: EmulatorOptions, codec: Codec | None = None) -> AsyncIterator[RunningEngine]:
    """Run one engine while the block lasts; `codec` takes the place of the tokenizer that `options` name.

    Raises ModelAssetError where there is no such model, AddressInUse where a port is taken, ConfigError where the
    address cannot be listened on.
    """
    with ExitStack() as held:
        server = _build(options, codec or LocalTokenizer.load(options.model), held)
        runner = web.AppRunner(
            _application(server), access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_S
        )
        await runner.setup()
        work: list[asyncio.Task[None]] = []
        try:
            url = await _listen(runner, options)
            work.append(asyncio.create_task(server.engine.run()))
            sources: dict[str, dict[str, Any]] = {}
            if server.publisher is not None:
                sources = server.publisher.sources()
                work.append(asyncio.create_task(server.publisher.serve_replay()))
            yield RunningEngine(url, options.model_name, sources, server.engine, work)
        finally:
            await runner.cleanup()
            await _cancel(work)


def _build(options: EmulatorOptions, codec: Codec, held: ExitStack) -> EngineServer:
    model = EngineModel(options.engine, secrets.randbits(63) if options.seed is None else options.seed)
    metrics = EngineMetrics(options.model_name, options.engine, model.state)
    publisher = None if options.kv_events == "off" else held.enter_context(_publisher(options))
    engine = RealTimeEngine(
        model,
        speedup=options.speedup,
        clock=time.monotonic,
        publish=_drop if publisher is None else publisher.publish,
        observer=metrics,
    )
    book = AnswerBook(codec, options.model_name, options.answer_tokens)
    return EngineServer(options, codec, book, PromptReader(codec), engine, metrics, publisher)


def _publisher(options: EmulatorOptions) -> KvPublisher:
    return KvPublisher(
        KvWire(options.kv_events),
        host=options.host,
        port=options.kv_events_port,
        replay_port=options.kv_replay_port,
        topic=options.kv_events_topic,
        buffer_steps=options.kv_buffer_steps,
        wall_clock=time.time,
    )


def _drop(changes: Sequence[KvChange]) -> None:
    """Nobody is told of `changes`."""


def _application(server: EngineServer) -> web.Application:
    app = web.Application(middlewares=[_error_shape], client_max_size=_MOST_BODY_BYTES)
    app[SERVER] = server
    app.add_routes(
        [
            web.post("/v1/completions", generating(Endpoint.COMPLETIONS)),
            web.post("/v1/chat/completions", generating(Endpoint.CHAT)),
            web.post("/v1/responses", generating(Endpoint.RESPONSES)),
            web.post("/v1/messages", generating(Endpoint.MESSAGES)),
            web.post("/v1/embeddings", embeddings),
            web.post("/tokenize", tokenize),
            web.post("/detokenize", detokenize),
            web.post("/reset_prefix_cache", service_routes.reset_prefix_cache),
            web.get("/kv_event_sources", service_routes.kv_event_sources),
            web.get("/v1/models", service_routes.models),
            web.get("/health", service_routes.health),
            web.get("/ping", service_routes.health),
            web.get("/version", service_routes.version),
            web.get("/metrics", service_routes.metrics),
        ]
    )
    return app


@web.middleware
async def _error_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors of any origin get the API's shape; what nobody expected is logged and answered with 500."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        answer = shaped(error)
        if isinstance(answer, web.HTTPException):
            raise
        return answer
    except Exception:  # the border of the process: the client gets an answer and the log the reason
        _log.exception("%s %s failed", request.method, request.path)
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return web.Response(status=status, body=error_body(status, "Internal error."), content_type="application/json")


async def _listen(runner: web.AppRunner, options: EmulatorOptions) -> str:
    site = web.TCPSite(runner, options.host, options.port)
    try:
        await site.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(f"port {options.port} on {options.host} is taken; choose another --port") from error
        raise ConfigError(f"cannot listen on {options.host}:{options.port}: {error}") from error
    host, port = runner.addresses[0][:2]
    reachable = "127.0.0.1" if host == "0.0.0.0" else host
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"


async def _cancel(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Cancel and await `tasks`; the error of one that failed before is raised."""
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
