"""A router is replaced by a new process while clients hammer it: no connection is refused, no stream is cut."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from e2e.processes import engine, router, until, until_ready

_MODEL = "warmroute-tiny"
_PROMPT = list(range(20, 120))
_LONG = {"model": _MODEL, "prompt": _PROMPT, "max_tokens": 400, "stream": True}
_SHORT = {"model": _MODEL, "prompt": _PROMPT, "max_tokens": 1}


@dataclass
class Hammer:
    """Clients that ask without end, on a new connection each time or on one that they keep."""

    url: str
    answered: int = 0
    faults: list[str] = field(default_factory=list)
    processes: set[str] = field(default_factory=set)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @asynccontextmanager
    async def swinging(self, clients: int) -> AsyncIterator["Hammer"]:
        self._tasks = [asyncio.create_task(self._ask(keeps=number % 2 == 0)) for number in range(clients)]
        try:
            yield self
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self, keeps: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=not keeps)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                try:
                    async with session.post(f"{self.url}/v1/completions", json=_SHORT) as response:
                        body = await response.text()
                    if response.status != 200:
                        self.faults.append(f"{response.status}: {body}")
                except aiohttp.ClientError as error:
                    self.faults.append(f"keeps={keeps}: {error!r}")
                self.answered += 1

    async def more(self, answers: int) -> None:
        """Wait until so many further requests have been answered."""
        wanted = self.answered + answers
        async with asyncio.timeout(30):
            while self.answered < wanted:
                await asyncio.sleep(0.01)


async def stream_to_its_end(url: str) -> bytes:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/completions", json=_LONG) as response:
        assert response.status == 200
        return await response.read()


@pytest.mark.timeout(120)
async def test_the_next_router_takes_over_and_nobody_notices(tmp_path: Path) -> None:
    flags = ("--state-file", str(tmp_path / "router.index"), "--state-interval-s", "1000")
    async with engine("--speedup", "2") as first, engine("--speedup", "2") as second:
        workers = [first.url, second.url]
        async with router(workers, *flags) as old:
            await until_ready(old.admin_url, 2)
            async with Hammer(old.url).swinging(8) as hammer:
                await hammer.more(50)
                streams = [asyncio.create_task(stream_to_its_end(old.url)) for _ in range(6)]
                await until(old.admin_url, "/warmroute/state", lambda state: state["requests_in_flight"] >= 6)
                async with router(workers, *flags, "--take-over") as new:
                    assert (new.url, new.admin_url) == (old.url, old.admin_url)
                    await until_ready(new.admin_url, 2)
                    known = await until(new.admin_url, "/warmroute/state", lambda state: state["index"]["blocks"] > 0)
                    assert known["uptime_s"] < 30
                    assert await asyncio.wait_for(old.process.wait(), 60) == 0
                    for body in await asyncio.gather(*streams):
                        assert body.rstrip().endswith(b"[DONE]")
                        assert b'"error"' not in body
                    await hammer.more(50)
                    assert hammer.faults == []
                    async with router(workers, *flags, "--take-over") as third:
                        assert await asyncio.wait_for(new.process.wait(), 60) == 0
                        await hammer.more(50)
                        assert hammer.faults == []
                        third.process.send_signal(signal.SIGHUP)
            assert (tmp_path / "router.index").exists()
    assert not (tmp_path / "router.handover").exists()


async def test_a_successor_that_cannot_start_leaves_everything_as_it_was(tmp_path: Path) -> None:
    flags = ("--state-file", str(tmp_path / "router.index"))
    async with engine() as only, router([only.url], *flags) as old:
        await until_ready(old.admin_url, 1)
        with pytest.raises(AssertionError, match="ended before it was ready"):
            # The address of its own pages is nobody's, and is not among what it inherits.
            async with router([only.url], *flags, "--take-over", "--tokenizer", "/nowhere", tokenizer=None):
                pass
        assert await asyncio.wait_for(stream_to_its_end(old.url), 30)
        async with router([only.url], *flags, "--take-over") as new:
            assert await asyncio.wait_for(old.process.wait(), 30) == 0
            assert await stream_to_its_end(new.url)


async def test_it_listens_on_the_sockets_of_systemd(tmp_path: Path) -> None:
    """As systemd does: descriptors from 3 on, and the process's own number in the environment."""
    script = (
        "import os, sys\n"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='admin:traffic')\n"
        "os.dup2(int(sys.argv[1]), 13); os.dup2(int(sys.argv[2]), 14); os.dup2(13, 3); os.dup2(14, 4)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'warmroute', 'serve', '--port', '1', '--state-file', ''])\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as admin, socket.create_server(("127.0.0.1", 0)) as traffic:
        descriptors = (admin.fileno(), traffic.fileno())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            script,
            *map(str, descriptors),
            pass_fds=descriptors,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "WARMROUTE_TOKENIZER": "warmroute-tiny"},
        )
        try:
            assert process.stderr is not None
            lines: list[str] = []
            while not (line := (await process.stderr.readline()).decode()).startswith("warmroute listens on "):
                assert line, "".join(lines)
                lines.append(line)
            assert f"http://127.0.0.1:{traffic.getsockname()[1]}" in line
            pages = f"http://127.0.0.1:{admin.getsockname()[1]}"
            async with aiohttp.ClientSession() as session, session.get(f"{pages}/warmroute/state") as response:
                assert response.status == 200
        finally:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 15) == 0
