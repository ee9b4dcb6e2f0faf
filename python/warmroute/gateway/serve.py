"""`warmroute serve`: builds router, fleet and relay, runs them, and shuts them down without losing a request."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from warmroute.diagnostics.audit import Audit
from warmroute.diagnostics.metrics import RouterMetrics
from warmroute.diagnostics.segment_metrics import SegmentCollector
from warmroute.diagnostics.state_metrics import StateCollector
from warmroute.gateway import systemd
from warmroute.gateway.access import Access, read_rights
from warmroute.gateway.admin import Admin
from warmroute.gateway.configuration import Configuration, ReadConfiguration
from warmroute.gateway.door import open_doors
from warmroute.gateway.failover import apply_failover, failover_metrics
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.fleet_report import event_counts
from warmroute.gateway.index_pages import IndexPages
from warmroute.gateway.inherited import Inherited, from_systemd
from warmroute.gateway.options import ServeConfig, state_path
from warmroute.gateway.proxy import Proxy
from warmroute.gateway.reading import Reader
from warmroute.gateway.registrations import Registrations, read_registrations, registrations_path
from warmroute.gateway.relay import RelayServer
from warmroute.gateway.reload import Prepare, Reloader
from warmroute.gateway.reload_parts import Settings, Workers
from warmroute.gateway.shutdown import Shutdown, finish
from warmroute.gateway.state_file import LaneState
from warmroute.gateway.state_keeper import StateKeeper
from warmroute.gateway.succession import Succession
from warmroute.gateway.tls import Tls
from warmroute.gateway.token_sources import Tokens, token_sources
from warmroute.gateway.worker_session import worker_session
from warmroute.kv_event import Listeners, threads_for
from warmroute.policy import policy_named
from warmroute.prefix_index import PrefixIndex
from warmroute.router import PolicyObserver, Router
from warmroute.worker import WorkerTable

_log = logging.getLogger(__name__)

# Predictions that ran out are dropped this often; until then `match` passes them over.
_EXPIRY_INTERVAL_S = 1.0


SWITCH_INTERVAL_S = 0.0005
"""How long a thread that takes in KV events may go on when the loop wants the interpreter; Python's own 5 ms is long
beside a decision of some hundred microseconds."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running router; `admin_url` is where its own pages are."""

    url: str
    admin_url: str
    router: Router
    fleet: Fleet
    relay: RelayServer
    admin: Admin
    reloader: Reloader


async def serve(configuration: Configuration, read: ReadConfiguration, ready: Callable[[str, str], None]) -> int:
    """Run until SIGTERM or SIGINT, then let the requests in flight finish; the number of those that were cut off.

    `ready` is called with the router's URL and that of its own pages. At SIGHUP, or when a file has changed, what
    `read` gives is taken over.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    shutdown = Shutdown()
    shutdown.listen_to_signals()
    inherited = from_systemd(os.environ, os.getpid())
    async with running_gateway(configuration, shutdown, read, inherited) as gateway:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, gateway.reloader.ask)
        ready(gateway.url, gateway.admin_url)
        systemd.notify(os.environ, systemd.ready(os.getpid()))
        await shutdown.begun.wait()
        if not shutdown.handed_over:
            systemd.notify(os.environ, systemd.STOPPING)
            await shutdown.rest(gateway.reloader.current.serve.drain_delay_s)
    cut_off = gateway.relay.counts.cut_off
    _log.log(logging.WARNING if cut_off else logging.INFO, "done; %d requests were cut off", cut_off)
    return cut_off


@asynccontextmanager
async def running_gateway(
    configuration: Configuration,
    shutdown: Shutdown | None = None,
    read: ReadConfiguration | None = None,
    inherited: Inherited | None = None,
) -> AsyncIterator[Gateway]:
    """A router that listens from entry to exit; without `read` there is nothing that could be told anew.

    It listens on sockets that were inherited, or on those of the router that it takes over from. Before it listens it
    may raise AddressInUse, ConfigError, ModelAssetError.
    """
    config = configuration.serve
    shutdown = shutdown or Shutdown()
    metrics = RouterMetrics()
    access = Access(read_rights(configuration.access, configuration.specs), Tls(configuration.access))
    router = _router(configuration, metrics)
    path = state_path(config, os.environ)
    keeper = StateKeeper(path, config.state_interval_s)
    succession = Succession(path, shutdown, inherited or Inherited())
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(succession.close)
        tokens = await stack.enter_async_context(token_sources(config, router.table, worker_session(access)))
        if config.take_over:
            await succession.receive()
        registered = read_registrations(registrations_path(path))
        restored = await keeper.load({spec.id for spec in configuration.specs + registered.added})
        fleet = await _fleet(stack, router, config, access, restored)
        stack.push_async_callback(keeper.close)
        relay = RelayServer(configuration.relay)
        proxy = _proxy(configuration, router, relay, tokens, fleet, access)
        _observe(metrics, router, fleet, proxy, tokens)
        workers, settings = Workers(fleet, metrics.forget), Settings(router, proxy, fleet, keeper)
        parts: list[Prepare] = [access.prepare, access.tls.prepare, workers.prepare, settings.prepare]
        reloader = Reloader(configuration, read or (lambda: configuration), parts)
        pages, standings = IndexPages(router, fleet, keeper), tokens.check.standings
        admin = Admin(reloader, router, fleet, proxy, metrics, time.monotonic(), pages, standings, shutdown)
        registrations = Registrations(registrations_path(path), fleet)
        stack.push_async_callback(registrations.close)
        doors = await stack.enter_async_context(contextlib.AsyncExitStack())
        stack.push_async_callback(lambda: finish(relay, shutdown, reloader.current.serve))
        registrations.begin(configuration.specs, registered)
        await succession.wait_until_known(fleet)
        opened = await open_doors(doors, configuration, admin, proxy, access, succession.inherited)
        _keep_running(stack, _expire(router.index), reloader.run())
        keeper.start(fleet.snapshots)
        # Also before the requests in flight get their time: whoever stops the router may lose patience.
        stack.push_async_callback(keeper.save)
        await succession.serve(stack, keeper, registrations, opened.relays)
        yield Gateway(opened.url, opened.admin_url, router, fleet, relay, admin, reloader)


def _observe(metrics: RouterMetrics, router: Router, fleet: Fleet, proxy: Proxy, tokens: Tokens) -> None:
    """Have predictions audited, and everything that is counted told by `metrics`."""
    audit = Audit(fleet.resync)
    router.observe(audit)
    for collector in (
        audit,
        StateCollector(router, lambda: event_counts(fleet.members), proxy.prompts),
        SegmentCollector(tokens.check.tokenizers.each),
        failover_metrics(router, proxy, fleet),
    ):
        metrics.registry.register(collector)


def _router(configuration: Configuration, metrics: RouterMetrics) -> Router:
    table = WorkerTable(show_addresses=configuration.access.show_addresses)
    router = Router(table, PrefixIndex(), policy_named(configuration.serve.policy), observers=[metrics])
    router.observe(PolicyObserver(router))
    return router


async def _fleet(
    stack: contextlib.AsyncExitStack,
    router: Router,
    config: ServeConfig,
    access: Access,
    restored: Sequence[LaneState],
) -> Fleet:
    """A fleet without workers, with the connections and threads that it will need; all of it ends with `stack`."""
    timeout = aiohttp.ClientTimeout(total=config.probe_timeout_s)
    session = await stack.enter_async_context(worker_session(access, timeout))
    threads = config.event_threads or threads_for(len(os.sched_getaffinity(0)))
    listeners = Listeners(threads, type(asyncio.get_running_loop()))
    stack.push_async_callback(listeners.close)
    fleet = Fleet(
        router,
        session,
        listeners,
        probe_interval_s=config.probe_interval_s,
        block_size=config.block_size,
        restored=restored,
    )
    fleet.polling_session = lambda: worker_session(access)
    fleet.destinations = lambda: access.rights.destinations
    stack.push_async_callback(fleet.close)
    return fleet


def _proxy(
    configuration: Configuration, router: Router, relay: RelayServer, tokens: Tokens, fleet: Fleet, access: Access
) -> Proxy:
    rng = random.Random(configuration.serve.seed)
    reader = Reader(tokens.source, tokens.plain, rng, access.passes_credentials)
    proxy = Proxy(router, relay, reader, rng, configuration.serve.max_attempts, fleet.suspect, fleet.look_at)
    proxy.tenant_of, proxy.keys_for = access.tenant_of, access.headers_for
    apply_failover(configuration.failover, router, proxy)
    return proxy


def _keep_running(stack: contextlib.AsyncExitStack, *tasks: Coroutine[Any, Any, None]) -> None:
    for task in tasks:
        stack.callback(asyncio.create_task(task).cancel)


async def _expire(index: PrefixIndex) -> None:
    while True:
        await asyncio.sleep(_EXPIRY_INTERVAL_S)
        index.expire(time.monotonic())
