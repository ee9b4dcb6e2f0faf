"""Engines and routers as real processes on loopback, started and ended by a test."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

_START_S = 30.0
_STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class Running:
    """A process that answers HTTP at `url`; the router has its own pages at `admin_url`."""

    url: str
    process: asyncio.subprocess.Process
    admin_url: str = ""

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()


@asynccontextmanager
async def engine(*flags: str, port: int = 0) -> AsyncIterator[Running]:
    """`warmroute engine`, ten times faster than the modelled one and without its fixed overhead."""
    words = ["engine", "--json", "--port", str(port), "--speedup", "10", "--request-overhead-s", "0", *flags]
    async with _process(words) as process:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), _START_S)
        assert line, "the engine ended before it was ready"
        yield Running(json.loads(line)["url"], process)


@asynccontextmanager
async def router(
    workers: Sequence[str], *flags: str, tokenizer: str | None = "warmroute-tiny", folder: Path | None = None
) -> AsyncIterator[Running]:
    """`warmroute serve` in front of `workers`, started in `folder`."""
    words = ["serve", "--port", "0", "--probe-interval-s", "0.1", *flags]
    words += [word for url in workers for word in ("--worker", url)]
    words += ["--tokenizer", tokenizer] if tokenizer else []
    async with _process(words, folder) as process:
        assert process.stderr is not None
        reader = asyncio.create_task(_urls_of(process.stderr))
        url, admin_url = await asyncio.wait_for(asyncio.shield(reader), _START_S)
        drain = asyncio.create_task(_drain(process.stderr))
        try:
            yield Running(url, process, admin_url)
        finally:
            drain.cancel()


async def until(url: str, path: str, fulfilled: Any, *, limit_s: float = 15.0) -> Any:
    """The JSON at `path` once `fulfilled(json)` is true."""
    deadline = asyncio.get_running_loop().time() + limit_s
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(url + path) as response:
                value = await response.json()
            if fulfilled(value):
                return value
            assert asyncio.get_running_loop().time() < deadline, f"{path} still says {value}"
            await asyncio.sleep(0.05)


async def until_ready(url: str, workers: int) -> None:
    """Wait until the router has that many ready workers, and has caught up with the events of each."""
    await until(
        url,
        "/warmroute/workers",
        lambda page: (
            sum(w["status"] == "ready" and all(e["complete"] for e in w["kv_events"]) for w in page["workers"])
            >= workers
        ),
    )


@asynccontextmanager
async def _process(words: Sequence[str], folder: Path | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "warmroute",
        *words,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if words[0] == "serve" else None,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"warmroute {words[0]} did not end within {_STOP_S} s of SIGTERM") from None


async def _urls_of(stderr: asyncio.StreamReader) -> tuple[str, str]:
    seen = []
    while line := (await stderr.readline()).decode():
        if line.startswith("warmroute listens on "):
            return line.split()[3], line.split()[-1]
        seen.append(line)
        sys.stderr.write(line)
    raise AssertionError("the router ended before it was ready:\n" + "".join(seen))


async def _drain(stderr: asyncio.StreamReader) -> None:
    while line := await stderr.readline():
        sys.stderr.write(line.decode())
