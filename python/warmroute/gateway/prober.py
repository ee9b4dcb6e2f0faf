"""Watching one worker: is it alive, what is it, how busy is it.

Busy is not dead: a worker that answers late stays in use until it has missed several looks in a row; one that refuses
the connection is down at once. Neither touches the load that is booked on it, nor what the index knows of its cache:
that is doubted only where the engine's process may be another one.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
import msgspec

from warmroute.errors import WorkerUnreachable
from warmroute.gateway.discovery import (
    WorkerMetrics,
    fetch,
    fetch_page,
    read_kv_event_sources,
    read_metrics,
    read_models,
    read_origins,
    read_server_info,
)
from warmroute.kv_event import EventSource
from warmroute.worker import LoadReport, Worker, WorkerFacts, WorkerStatus, WorkerTable

_log = logging.getLogger(__name__)

# Looks that a worker may miss before it counts as down: three seconds at the default interval.
_MISSES_ALLOWED = 3
# Models and adapters may be loaded later, so they are asked for again, but not at each look.
_LOOKS_PER_DISCOVERY = 10
# No engine loads a model, and no machine boots, in less. A process that is restarted sooner refuses connections
# meanwhile, and is looked at each second.
_SHORTEST_HIDDEN_RESTART_S = 30.0
_KEY_WANTED = "/v1/models answers {}: it wants an API key, or another one than it got; see --worker-api-key-file"
_WELL = (WorkerStatus.READY, WorkerStatus.DRAINING)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a worker said of itself."""

    facts: WorkerFacts
    sources: tuple[EventSource, ...]
    complaint: str = ""
    """Why not all could be learned of it, where a person can help."""


@dataclass(slots=True)
class Prober:
    """Looks at one worker every `interval_s` until cancelled.

    `discovered` is called with every discovery; `came_up` whenever its process may be another than before, and is
    ready. `faults` counts the ends of the watching that nobody foresaw, after which it began anew.
    """

    worker: Worker
    table: WorkerTable
    session: aiohttp.ClientSession
    interval_s: float
    discovered: Callable[[Worker, Discovery], None]
    came_up: Callable[[Worker], None]
    last_look_at: float | None = None
    faults: int = 0
    _refused: bool = False  # since it was well
    _well_at: float | None = None
    _process_began_at: float | None = None
    _misses: int = 0
    _complaint: str = ""
    _looks: int = 0
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Look, wait, look again; no fault ends the watching."""
        while True:
            try:
                await self._watch()
            except Exception:
                self.faults += 1
                _log.exception("watching %s failed; it begins anew", self.worker.shown)
                await asyncio.sleep(self.interval_s)

    async def _watch(self) -> None:
        while True:
            await self.look()
            try:
                await asyncio.wait_for(self._wake.wait(), self.interval_s)
            except TimeoutError:
                continue
            self._wake.clear()

    def look_soon(self) -> None:
        """Do not wait for the next interval: something was seen that should be checked."""
        self._wake.set()

    async def look(self) -> None:
        """One look: health, then what is due of discovery and load."""
        try:
            await self._look()
        except WorkerUnreachable as error:
            self._missed(error)
        except Exception:
            # An answer that nobody foresaw: the worker keeps its status, and the fault is told with its trace.
            _log.exception("looking at %s failed", self.worker.shown)
        self.last_look_at = time.monotonic()

    async def _look(self) -> None:
        if await fetch(self.session, self.worker.spec.url, "/health") is None:
            raise WorkerUnreachable("/health does not exist there; give the engine's base URL, without /v1")
        self._misses = 0
        metrics = await self._take_load()
        coming_up = self.worker.status not in _WELL
        if coming_up or self._looks % _LOOKS_PER_DISCOVERY == 0:
            discovery = await discover(self.session, self.worker.spec.url, metrics)
            self._complain(discovery.complaint)
            self.discovered(self.worker, discovery)
        self._looks += 1
        self._note_well(metrics, time.monotonic())

    def _complain(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            _log.warning("worker %s: %s", self.worker.shown, complaint)
        self._complaint = complaint

    def _note_well(self, metrics: WorkerMetrics, now: float) -> None:
        restarted = self._may_be_another(metrics.started_at, now)
        self._refused, self._well_at, self._process_began_at = False, now, metrics.started_at
        if self.table.set_status(self.worker, WorkerStatus.READY, self._complaint, came_up_at=now):
            _log.info("worker %s is %s", self.worker.shown, self.worker.status)
        if restarted:
            self.came_up(self.worker)

    def _may_be_another(self, began_at: float | None, now: float) -> bool:
        """Whether the engine's process may be another than the one that was well last."""
        if self._well_at is None:
            return True
        if began_at is not None and self._process_began_at is not None:
            return began_at != self._process_began_at
        away_s = now - self._well_at if self.worker.status not in _WELL else 0.0
        return self._refused or away_s > _SHORTEST_HIDDEN_RESTART_S

    async def _take_load(self) -> WorkerMetrics:
        before = self.worker.requests
        metrics = await fetch_metrics(self.session, self.worker.spec.url)
        if metrics.requests is not None:
            own = max(before, self.worker.requests)
            report = LoadReport(metrics.requests, metrics.kv_usage, time.monotonic(), waiting=metrics.waiting)
            self.table.take_report(self.worker, report, own)
        return metrics

    def _missed(self, error: WorkerUnreachable) -> None:
        self._misses += 1
        refused = isinstance(error.__cause__, aiohttp.ClientConnectorError)
        self._refused = self._refused or refused
        if self.worker.status in _WELL and not refused and self._misses < _MISSES_ALLOWED:
            return
        first = self.worker.status is WorkerStatus.STARTING and self._misses == 1
        if self.table.set_status(self.worker, WorkerStatus.DOWN, str(error)) or first:
            told = "worker %s is down: %s; it is asked again every %g s"
            _log.warning(told, self.worker.shown, error, self.interval_s)


async def discover(session: aiohttp.ClientSession, url: str, metrics: WorkerMetrics) -> Discovery:
    """Ask a worker, whose metrics have been read, what it is. Raises WorkerUnreachable."""
    answer = await fetch_page(session, url, "/v1/models")
    page = _json(answer.body if answer.status < 300 else None)
    models, max_model_len = read_models(page)
    engine, roots = read_origins(page)
    sources = read_kv_event_sources(_json(await fetch(session, url, "/kv_event_sources")), url)
    facts = WorkerFacts(models, metrics.block_size, metrics.capacity_blocks, max_model_len, engine, roots)
    if not sources:
        told, sources = read_server_info(await _server_info(session, url), url)
        facts = dataclasses.replace(
            facts,
            block_size=facts.block_size or told.block_size,
            capacity_blocks=facts.capacity_blocks or told.capacity_blocks,
            max_running_requests=told.max_running_requests,
        )
    return Discovery(facts, sources, _KEY_WANTED.format(answer.status) if answer.wants_key else "")


async def fetch_metrics(session: aiohttp.ClientSession, url: str) -> WorkerMetrics:
    """The worker's metrics; all unknown where it has none."""
    body = await fetch(session, url, "/metrics")
    return read_metrics(body.decode("utf-8", "replace")) if body is not None else WorkerMetrics()


async def _server_info(session: aiohttp.ClientSession, url: str) -> object:
    body = await fetch(session, url, "/server_info")
    return _json(body if body is not None else await fetch(session, url, "/get_server_info"))


def _json(body: bytes | None) -> object:
    """A parsed body; None for none, and for what is no JSON, as a proxy's error page."""
    try:
        return msgspec.json.decode(body) if body is not None else None
    except (msgspec.DecodeError, RecursionError):
        return None
