"""One emulated server, from its options to its sockets."""

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
from warmroute.emulator.kv_buffer import KvBuffer
from warmroute.emulator.kv_publisher import KvPublisher
from warmroute.emulator.kv_wire import KvWire
from warmroute.emulator.metrics import ServerMetrics
from warmroute.emulator.options import EmulatorOptions
from warmroute.emulator.prompt_ids import PromptReader
from warmroute.emulator.real_time import RealTimeEngine
from warmroute.emulator.refusal import error_body, shaped
from warmroute.emulator.token_routes import detokenize, tokenize
from warmroute.engine_model import EngineModel, EngineState, KvChange
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
    """A server that answers at `url`. `kv_event_sources` is empty unless KV events are published."""

    url: str
    model_name: str
    kv_event_sources: dict[str, dict[str, Any]]
    _server: EngineServer
    _work: Sequence["asyncio.Task[None]"]

    @property
    def engines(self) -> Sequence[RealTimeEngine]:
        """One for each data-parallel rank."""
        return self._server.engines

    @property
    def kv_events_endpoint(self) -> str | None:
        """Where rank 0 tells of its cache: an address to subscribe to, or one to ask; None without KV events."""
        if self._server.buffers:
            return f"{self.url}/kv_cache_events"
        return self.kv_event_sources["0"]["endpoint"] if self.kv_event_sources else None

    @property
    def engine(self) -> RealTimeEngine:
        """The engine of rank 0."""
        return self.engines[0]

    def restart_rank(self, rank: int) -> None:
        """Let one rank, which has no request, be another process from here on: empty, its batches counted from 0."""
        self.engines[rank].restart(_model(self._server.options, secrets.randbits(63)))
        told: Sequence[KvPublisher | KvBuffer] = self._server.publishers or self._server.buffers
        if told:
            told[rank].restart()

    async def failed(self) -> None:
        """Wait until a part of the engine ends by an error, and raise it; cancel to stop waiting."""
        await asyncio.gather(*(asyncio.shield(task) for task in self._work))


@asynccontextmanager
async def serve_engine(options: EmulatorOptions, codec: Codec | None = None) -> AsyncIterator[RunningEngine]:
    """Run one server while the block lasts; `codec` takes the place of the tokenizer that `options` name.

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
            work.extend(asyncio.create_task(engine.run()) for engine in server.engines)
            work.extend(asyncio.create_task(publisher.serve_replay()) for publisher in server.publishers)
            yield RunningEngine(url, options.model_name, server.kv_event_sources(), server, work)
        finally:
            await runner.cleanup()
            await _cancel(work)


def _build(options: EmulatorOptions, codec: Codec, held: ExitStack) -> EngineServer:
    ranks = range(options.data_parallel_size)
    first_seed = secrets.randbits(63) if options.seed is None else options.seed
    models = [_model(options, first_seed + (rank << 32)) for rank in ranks]
    publishers = [held.enter_context(_publisher(options, rank)) for rank in ranks] if options.publishes else []
    buffers = [_buffer(options, rank) for rank in ranks] if options.kv_events == "trtllm" else []
    told: Sequence[KvPublisher | KvBuffer] = publishers or buffers
    # A rank's model may be replaced, so its state is asked for by the engine that runs it.
    engines: list[RealTimeEngine] = []
    metrics = ServerMetrics(options.model_name, options.engine, [_state_of(engines, rank) for rank in ranks])
    for rank, model in enumerate(models):
        engine = RealTimeEngine(
            model,
            speedup=options.speedup,
            clock=time.monotonic,
            publish=told[rank].publish if told else _drop,
            observer=metrics.of_rank(rank),
        )
        engines.append(engine)
    book = AnswerBook(codec, options.model_name, options.answer_tokens)
    return EngineServer(options, codec, book, PromptReader(codec), engines, metrics, publishers, buffers)


def _model(options: EmulatorOptions, seed: int) -> EngineModel:
    return EngineModel(options.engine, seed, keeps_partial_blocks=options.kv_events == "trtllm")


def _state_of(engines: Sequence[RealTimeEngine], rank: int) -> Callable[[], EngineState]:
    return lambda: engines[rank].model.state()


def _publisher(options: EmulatorOptions, rank: int) -> KvPublisher:
    return KvPublisher(
        KvWire(options.kv_events, rank),
        host=options.host,
        port=options.kv_events_port and options.kv_events_port + rank,
        replay_port=options.kv_replay_port and options.kv_replay_port + rank,
        topic=options.kv_events_topic,
        buffer_steps=options.kv_buffer_steps,
        wall_clock=time.time,
    )


def _buffer(options: EmulatorOptions, rank: int) -> KvBuffer:
    named = rank if options.data_parallel_size > 1 else None
    return KvBuffer(options.engine, rank=named, limit=options.kv_buffer_steps)


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
    if server.buffers:
        app.add_routes([web.post("/kv_cache_events", service_routes.kv_cache_events)])
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
