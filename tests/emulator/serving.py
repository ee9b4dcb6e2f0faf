"""Emulated engines over real sockets, in the test's own process."""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from warmroute.emulator import EmulatorOptions, RunningEngine, serve_engine
from warmroute.engine_model import EngineOptions
from warmroute.tokenizer import LocalTokenizer

SPEEDUP = 50.0


@functools.cache
def tiny() -> LocalTokenizer:
    """The packaged tokenizer, loaded once."""
    return LocalTokenizer.load("warmroute-tiny")


def emulator_options(engine: EngineOptions | None = None, **changes: Any) -> EmulatorOptions:
    """A fast engine of 256 blocks on free ports, with a fixed seed."""
    settings: dict[str, Any] = {"port": 0, "speedup": SPEEDUP, "seed": 1}
    return EmulatorOptions(engine=engine or EngineOptions(num_blocks=256), **(settings | changes))


@dataclass(frozen=True, slots=True)
class Client:
    """A running engine and a session to ask it with."""

    running: RunningEngine
    session: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return self.running.url

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def text(self, path: str) -> str:
        async with self.session.get(self.url + path) as response:
            assert response.status == 200
            return await response.text()

    async def post(self, path: str, body: Any, *, status: int = 200) -> Any:
        async with self.session.post(self.url + path, json=body) as response:
            assert response.status == status, await response.text()
            return await response.json()

    async def raw(self, path: str, data: bytes) -> tuple[int, bytes]:
        async with self.session.post(self.url + path, data=data) as response:
            return response.status, await response.read()

    async def metric(self, name: str) -> float:
        """The value of a metric without labels of its own."""
        lines = (await self.text("/metrics")).splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


@asynccontextmanager
async def serving(engine: EngineOptions | None = None, **changes: Any) -> AsyncIterator[Client]:
    """One engine while the block lasts."""
    async with (
        serve_engine(emulator_options(engine, **changes), tiny()) as running,
        aiohttp.ClientSession() as session,
    ):
        yield Client(running, session)
