"""`warmroute serve`: builds router, fleet and relay, runs them, and shuts them down without losing a request."""

import asyncio
import contextlib
import logging
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from warmroute.diagnostics.audit import Audit
from warmroute.diagnostics.metrics import RouterMetrics
from warmroute.diagnostics.segment_metrics import SegmentCollector
from warmroute.diagnostics.state_metrics import StateCollector
from warmroute.gateway.admin import Admin
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.fleet_report import event_counts
from warmroute.gateway.index_pages import IndexPages
from warmroute.gateway.options import ServeConfig, state_path
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.reading import Reader
from warmroute.gateway.relay import Arrival, RelayOptions, RelayServer
from warmroute.gateway.shutdown import Shutdown, finish
from warmroute.gateway.state_keeper import StateKeeper
from warmroute.gateway.token_sources import token_sources
from warmroute.kv_event import Listeners, threads_for
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Router
from warmroute.worker import WorkerSpec, WorkerTable

_log = logging.getLogger(__name__)

# Predictions that ran out are dropped this often; until then `match` passes them over.
_EXPIRY_INTERVAL_S = 1.0


SWITCH_INTERVAL_S = 0.0005
"""How long a thread that takes in KV events may go on when the loop wants the interpreter; Python's own 5 ms is long
beside a decision of some hundred microseconds."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running router."""

    url: str
    router: Router
    fleet: Fleet
    relay: RelayServer
    admin: Admin


async def serve(
    config: ServeConfig, relay_options: RelayOptions, specs: tuple[WorkerSpec, ...], ready: Callable[[str], None]
) -> int:
    """Run until SIGTERM or SIGINT, then let the requests in flight finish; the number of those that were cut off.

    `ready` is called with the router's URL.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    shutdown = Shutdown()
    shutdown.listen_to_signals()
    async with running_gateway(config, relay_options, specs, shutdown) as gateway:
        ready(gateway.url)
        await shutdown.begun.wait()
        await shutdown.rest(config.drain_delay_s)
    cut_off = gateway.relay.counts.cut_off
    _log.log(logging.WARNING if cut_off else logging.INFO, "done; %d requests were cut off", cut_off)
    return cut_off


@asynccontextmanager
async def running_gateway(
    config: ServeConfig, relay_options: RelayOptions, specs: tuple[WorkerSpec, ...], shutdown: Shutdown
) -> AsyncIterator[Gateway]:
    """A router that listens from entry to exit. Raises AddressInUse, ConfigError, ModelAssetError before it listens."""
    metrics = RouterMetrics()
    router = Router(WorkerTable(), PrefixIndex(), POLICIES[config.policy](), observers=[metrics])
    timeout = aiohttp.ClientTimeout(total=config.probe_timeout_s)
    async with contextlib.AsyncExitStack() as stack:
        # Probes have connections of their own, and as many as they need: hung workers must not delay others' looks.
        session = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        )
        tokens = await stack.enter_async_context(token_sources(config, router.table))
        threads = config.event_threads or threads_for(len(os.sched_getaffinity(0)))
        listeners = Listeners(threads, type(asyncio.get_running_loop()))
        stack.push_async_callback(listeners.close)
        keeper = StateKeeper(state_path(config, os.environ), config.state_interval_s)
        fleet = Fleet(
            router,
            session,
            listeners,
            probe_interval_s=config.probe_interval_s,
            block_size=config.block_size,
            restored=await keeper.load({spec.id for spec in specs}),
        )
        stack.push_async_callback(fleet.close)
        stack.push_async_callback(keeper.close)
        audit = Audit(fleet.resync)
        router.observe(audit)
        metrics.registry.register(audit)
        relay = RelayServer(relay_options)
        rng = random.Random(config.seed)
        reader = Reader(tokens.source, tokens.plain, rng)
        proxy = Proxy(router, relay, reader, rng, config.max_attempts, fleet.suspect, fleet.look_at)
        metrics.registry.register(StateCollector(router, lambda: event_counts(fleet.members), proxy.prompts))
        metrics.registry.register(SegmentCollector(tokens.check.tokenizers.each))
        pages = IndexPages(router, fleet, keeper)
        admin = Admin(config, router, fleet, proxy, metrics, time.monotonic(), pages, tokens.check.standings, shutdown)
        stack.push_async_callback(finish, relay, shutdown, config.grace_s)
        for spec in specs:
            fleet.add(spec)
        host, port = await relay.start(config.host, config.port, _handler(admin, proxy, relay))
        expiry = asyncio.create_task(_expire(router.index), name="expire predictions")
        stack.callback(expiry.cancel)
        keeper.start(fleet.snapshots)
        # Also before the requests in flight get their time: whoever stops the router may lose patience.
        stack.push_async_callback(keeper.save)
        yield Gateway(f"http://{f'[{host}]' if ':' in host else host}:{port}", router, fleet, relay, admin)


def _handler(admin: Admin, proxy: Proxy, relay: RelayServer) -> Callable[[Arrival], Coroutine[Any, Any, None] | None]:
    async def answer(arrival: Arrival) -> None:
        answer = await admin.answer(arrival)
        await relay.respond(arrival.request_id, answer.status, answer.headers, answer.body)

    def arrived(arrival: Arrival) -> Coroutine[Any, Any, None] | None:
        return proxy.arrived(arrival) if admin.leaves(arrival) else answer(arrival)

    return arrived


async def _expire(index: PrefixIndex) -> None:
    while True:
        await asyncio.sleep(_EXPIRY_INTERVAL_S)
        index.expire(time.monotonic())
