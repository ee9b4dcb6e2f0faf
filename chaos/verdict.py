"""What must hold of the router when the faults are over and the clients have gone."""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.asks import COMPLETIONS, MODEL, Ask
from chaos.behaviours import Client, plain
from chaos.growth import Usage, usage
from chaos.judgement import WORKER_HEADER
from chaos.router_process import RouterProcess
from chaos.wire import connect, head, read_response

# A worker that failed often is left alone for up to half a minute.
_COME_BACK_S = 40.0
_QUIET_S = 20.0
_TRACES = re.compile(r"Traceback|panicked|was never (awaited|retrieved)|callback of the relay failed")
# Between two quiet moments: connections of probes and of events come and go.
_QUIET_FILES = 10
_QUIET_TASKS = 4
_QUIET_THREADS = 2
_RUNNING = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} ([0-9.]+)", re.MULTILINE)


@dataclass(slots=True)
class Quiet:
    """The router with nothing to do."""

    usage: Usage
    inside: dict[str, Any]


async def quiet(router: RouterProcess) -> Quiet:
    """What the process uses and holds now."""
    inside = await router.inspect()
    return Quiet(usage(router.pid, 0.0, len(inside["tasks"])), inside)


async def come_back(router: RouterProcess, urls: Sequence[str], workers: Callable[[str], str | None]) -> list[str]:
    """Let each worker be the only one that may serve, and see that it does; the violations, where one does not in time.

    The others are drained meanwhile: whom the router would choose by itself is no question here.
    """
    client = Client(0, router.url, random.Random(0))
    found = []
    for url in urls:
        for other in urls:
            method = "DELETE" if other == url else "POST"
            await router.page("/warmroute/workers/drain", method, url=other, timeout_s="0.001")
        if not await _serves(url, client, workers):
            state = [each for each in (await router.page("/warmroute/workers"))["workers"] if each["url"] == url]
            found.append(f"{url} did not serve again: {state}")
    for url in urls:
        await router.page("/warmroute/workers/drain", "DELETE", url=url)
    if client.kept is not None:
        await client.kept.close()
    return found


async def _serves(url: str, client: Client, workers: Callable[[str], str | None]) -> bool:
    deadline = asyncio.get_running_loop().time() + _COME_BACK_S
    while await _serving(client, workers) != url:
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.1)
    return True


async def counters(router: RouterProcess) -> list[str]:
    """Nothing may be in flight any more, anywhere, and every counter must agree with every other."""
    deadline = asyncio.get_running_loop().time() + _QUIET_S
    while (found := await _in_flight(router)) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.2)
    inside = await router.inspect()
    found += [f"integrity: {each}" for each in inside["broken"]]
    found += [f"{name}: {inside[name]}" for name in ("unanswered", "callback_errors") if inside[name]]
    return found


async def engines_idle(urls: Sequence[str]) -> list[str]:
    """No engine may still work for a client that has gone."""
    deadline = asyncio.get_running_loop().time() + _QUIET_S
    while (busy := [url for url in urls if await _running(url)]) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.2)
    return [f"{url} still works on a request" for url in busy]


def no_more_than(before: Quiet, after: Quiet) -> list[str]:
    """What is held with nothing to do must be what was held before the load."""
    found = []
    if after.usage.files > before.usage.files + _QUIET_FILES:
        found.append(f"{after.usage.files} open files at rest, {before.usage.files} before the load")
    if after.usage.threads > before.usage.threads + _QUIET_THREADS:
        found.append(f"{after.usage.threads} threads at rest, {before.usage.threads} before the load")
    if after.usage.tasks > before.usage.tasks + _QUIET_TASKS:
        more = Counter(after.inside["tasks"]) - Counter(before.inside["tasks"])
        found.append(f"{after.usage.tasks} tasks at rest, {before.usage.tasks} before the load; more of {dict(more)}")
    return found


def traces(log: str) -> list[str]:
    """The first lines of what must not be in a log."""
    lines = log.splitlines()
    places = [place for place, line in enumerate(lines) if _TRACES.search(line)]
    return ["the log has: " + " | ".join(lines[max(0, place - 1) : place + 25]) for place in places[:3]]


async def _serving(client: Client, workers: Callable[[str], str | None]) -> str | None:
    prompt = [client.rng.randrange(20, 900) for _ in range(64)]
    body = json.dumps({"model": MODEL, "prompt": prompt, "max_tokens": 8, "ignore_eos": True}).encode()
    response = await plain(client, Ask(COMPLETIONS, body, stream=False))
    assert response is not None, "a plain client waits for its answer"
    return workers(response.headers.get(WORKER_HEADER, "")) if response.status == 200 and response.whole else None


async def _in_flight(router: RouterProcess) -> list[str]:
    inside = await router.inspect()
    state, page = await router.page("/warmroute/state"), await router.page("/warmroute/workers")
    # The page that is asked for is itself a request of the relay, but not when the process is inspected.
    found = [f"{name}: {inside[name]}" for name in ("relay_in_flight", "booked", "queued") if inside[name]]
    if inside["arrivals"] > inside["outcomes"]:
        found.append(f"{inside['arrivals']} arrivals, {inside['outcomes']} outcomes")
    found += [f"requests_in_flight: {state['requests_in_flight']}"] if state["requests_in_flight"] else []
    for worker in page["workers"]:
        load = {key: worker[key] for key in ("requests", "decoding", "queued_tokens") if worker[key]}
        found += [f"{worker['url']}: {load}"] if load else []
    return found


async def _running(url: str) -> float:
    connection = await connect(url)
    connection.writer.write(head("/metrics", 0, "connection: close", method="GET"))
    response = await read_response(connection.reader, method="GET")
    await connection.close()
    return sum(map(float, _RUNNING.findall(response.body.decode())))
