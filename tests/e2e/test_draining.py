"""Draining a worker, and the router itself: nothing is lost, nothing new comes, and what was cut off is told."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from e2e.processes import Running, engine, router, until, until_ready
from warmroute.gateway.cross_site import NOT_A_FORM

_MODEL = "warmroute-tiny"
# Some seconds of answer where the engine is slowed down.
_LONG = {"model": _MODEL, "prompt": list(range(20, 60)), "max_tokens": 600, "stream": True}
_SLOW = ("--speedup", "2")
_SHORT = {"model": _MODEL, "prompt": list(range(20, 60)), "max_tokens": 1}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={NOT_A_FORM: "1"}) as made:
        yield made


@asynccontextmanager
async def streaming(session: aiohttp.ClientSession, url: str) -> AsyncIterator[aiohttp.ClientResponse]:
    """A long answer that has begun."""
    async with session.post(f"{url}/v1/completions", json=_LONG) as response:
        assert response.status == 200
        await response.content.readany()
        yield response


async def drain(session: aiohttp.ClientSession, gate_url: str, **query: str) -> tuple[int, dict[str, object]]:
    async with session.post(f"{gate_url}/warmroute/workers/drain", params=query) as response:
        return response.status, await response.json()


async def warmroute(*words: str) -> tuple[int, str, str]:
    """A command's exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    written = await process.communicate()
    assert process.returncode is not None
    return process.returncode, written[0].decode(), written[1].decode()


async def homes(session: aiohttp.ClientSession, gate: Running, count: int) -> set[str]:
    """The statuses of so many requests, and who answered them."""
    found = set()
    for _ in range(count):
        async with session.post(f"{gate.url}/v1/completions", json=_SHORT) as response:
            assert response.status == 200, await response.text()
            await response.read()
            found.add(response.headers["x-warmroute-worker"])
    return found


async def test_a_draining_worker_finishes_its_stream_and_gets_nothing_new(session: aiohttp.ClientSession) -> None:
    async with engine(*_SLOW) as first, engine(*_SLOW) as second, router([first.url, second.url]) as gate:
        await until_ready(gate.admin_url, 2)
        async with streaming(session, gate.url) as stream:
            page = await until(
                gate.admin_url, "/warmroute/workers", lambda page: any(w["requests"] for w in page["workers"])
            )
            (busy,) = (worker["url"] for worker in page["workers"] if worker["requests"])
            status, report = await drain(session, gate.admin_url, url=busy, timeout_s="0")
            assert (status, report["requests"], report["done"], report["status"]) == (202, 1, False, "draining")
            # Its prefix lies there, and counts for nothing.
            shown = stream.headers["x-warmroute-worker"]
            assert shown not in await homes(session, gate, 6)
            body = await stream.read()
            assert body.rstrip().endswith(b"[DONE]")
        assert await drain(session, gate.admin_url, url=busy) == (200, report | {"requests": 0, "done": True})
        async with session.delete(f"{gate.admin_url}/warmroute/workers/drain", params={"url": busy}) as response:
            assert (response.status, (await response.json())["status"]) == (200, "ready")
        assert shown in await homes(session, gate, 6)


async def test_whom_nobody_knows_cannot_be_drained(session: aiohttp.ClientSession) -> None:
    async with router([]) as gate:
        assert (await drain(session, gate.admin_url, url="http://127.0.0.1:9"))[0] == 404
        assert (await drain(session, gate.admin_url, name="nobody"))[0] == 404
        assert (await drain(session, gate.admin_url))[0] == 400
        assert (await drain(session, gate.admin_url, url="no url"))[0] == 400
        for time in ("soon", "nan", "-1", "1e99"):
            assert (await drain(session, gate.admin_url, url="http://127.0.0.1:9", timeout_s=time))[0] == 400


async def test_when_all_workers_drain_requests_are_refused_for_a_while(session: aiohttp.ClientSession) -> None:
    async with engine() as only, router([only.url]) as gate:
        await until_ready(gate.admin_url, 1)
        assert (await drain(session, gate.admin_url, url=only.url))[0] == 200
        async with session.post(f"{gate.url}/v1/completions", json=_SHORT) as response:
            assert (response.status, response.headers["x-warmroute-refused"]) == (503, "no-worker-ready")
        async with session.get(f"{gate.url}/ready") as response:
            assert response.status == 503


async def test_the_command_waits_and_says_by_its_exit_code_what_is_left(session: aiohttp.ClientSession) -> None:
    async with engine(*_SLOW) as only, router([only.url]) as gate:
        await until_ready(gate.admin_url, 1)
        async with streaming(session, gate.url) as stream:
            left = await warmroute("drain", only.url, "--url", gate.admin_url, "--timeout-s", "0")
            assert left == (1, "1 requests are left\n", "")
            code, text, told = await warmroute("drain", only.url, "--url", gate.admin_url, "--json")
            assert (code, json.loads(text)["done"]) == (0, True)
            assert "1 requests left" in told
            assert (await stream.read()).rstrip().endswith(b"[DONE]")
        code, text, _ = await warmroute("drain", json.loads(text)["worker"], "--undo", "--url", gate.admin_url)
        assert (code, text.endswith("is ready\n")) == (0, True)
        assert (await warmroute("drain", "nobody", "--url", gate.admin_url))[0] == 2


async def test_a_router_that_leaves_says_so_first_and_then_finishes(session: aiohttp.ClientSession) -> None:
    async with engine() as only, router([only.url], "--drain-delay-s", "1.5") as gate:
        await until_ready(gate.admin_url, 1)
        async with streaming(session, gate.url) as stream:
            gate.process.terminate()
            await until(gate.url, "/ready", lambda page: page.get("reason") == "draining", limit_s=1.0)
            assert len(await homes(session, gate, 3)) == 1
            assert (await stream.read()).rstrip().endswith(b"[DONE]")
        assert await gate.process.wait() == 0


async def test_told_twice_it_cuts_off_what_is_in_flight_and_says_so(session: aiohttp.ClientSession) -> None:
    async with engine("--speedup", "0.2") as only, router([only.url], "--drain-delay-s", "60") as gate:
        await until_ready(gate.admin_url, 1)
        async with streaming(session, gate.url) as stream:
            gate.process.terminate()
            await until(gate.url, "/ready", lambda page: page.get("reason") == "draining")
            gate.process.send_signal(signal.SIGINT)
            assert await asyncio.wait_for(gate.process.wait(), 10) == 1
            with pytest.raises(aiohttp.ClientPayloadError):
                raise_unless_done(await stream.read())


def raise_unless_done(body: bytes) -> None:
    """An answer that was cut off ends with an error event or without its end."""
    if not body.rstrip().endswith(b"[DONE]") or b'"error"' in body:
        raise aiohttp.ClientPayloadError
