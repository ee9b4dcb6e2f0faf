"""Emulated engines and a router in front of them, all fresh, as processes."""

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from warmroute.demo.child import Child, ChildFailed, children, while_alive
from warmroute.demo.options import MODEL, SPEEDUP
from warmroute.engine_model import EngineOptions

# Five interpreters start on what may be two busy cores.
_START_S = 60.0
_POLL_S = 0.05
_ENGINE_READY = re.compile(r'"url": *"(http://[^"]+)"')
_ROUTER_READY = re.compile(r"warmroute listens on (http://\S+) and for operators on (http://\S+)")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running processes; requests go to `url`, the router's own pages are at `admin_url`."""

    url: str
    admin_url: str
    processes: tuple[Child, ...]


@asynccontextmanager
async def running_fleet(
    policy: str, workers: int, engine: EngineOptions, seed: int, logs: Path, speedup: float = SPEEDUP
) -> AsyncIterator[Fleet]:
    """Fresh engines with empty caches and a fresh router, ready for requests. Raises ChildFailed."""
    commands = [(f"engine {number}", engine_words(engine, speedup)) for number in range(1, workers + 1)]
    async with children(commands, logs) as engines:
        ready = await asyncio.gather(*(engine.ready(_ENGINE_READY, _START_S) for engine in engines))
        words = router_words(policy, [match[1] for match in ready], seed)
        async with children([("router", words)], logs) as (router,):
            announced = await router.ready(_ROUTER_READY, _START_S)
            fleet = Fleet(announced[1], announced[2], (*engines, router))
            await while_alive(fleet.processes, _all_workers_ready(fleet))
            yield fleet


def engine_words(engine: EngineOptions, speedup: float) -> list[str]:
    """The command line of one engine, after `warmroute`: what differs from the defaults."""
    values = dataclasses.asdict(engine)
    defaults = dataclasses.asdict(EngineOptions())
    flags = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value != defaults[name]}
    flags = {"--port": 0, "--model": MODEL, "--speedup": speedup} | flags
    return ["engine", "--json", *(word for flag, value in flags.items() for word in (flag, str(value)))]


def router_words(policy: str, worker_urls: Sequence[str], seed: int) -> list[str]:
    """The command line of the router, after `warmroute`."""
    workers = (word for url in worker_urls for word in ("--worker", url))
    return [
        "serve",
        "--port",
        "0",
        "--policy",
        policy,
        "--tokenizer",
        MODEL,
        "--seed",
        str(seed),
        "--grace-s",
        "1",
        *workers,
    ]


async def _all_workers_ready(fleet: Fleet) -> None:
    """Wait until the router has seen every engine and hears its KV events. Raises ChildFailed when it never does."""
    page = f"{fleet.admin_url}/warmroute/workers"
    try:
        async with asyncio.timeout(_START_S), aiohttp.ClientSession() as session:
            while True:
                async with session.get(page) as response:
                    workers = msgspec.json.decode(await response.read())["workers"]
                if all(_is_heard(worker) for worker in workers):
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        raise ChildFailed(f"the router did not see all engines within {_START_S:g} s; ask {page}") from error


def _is_heard(worker: dict[str, Any]) -> bool:
    events = worker["kv_events"]
    return worker["status"] == "ready" and bool(events) and all(source["connected"] for source in events)
