"""Child processes: started, waited for until they say that they are ready, watched, and ended by their pid."""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from warmroute.errors import WarmrouteError

ResultT = TypeVar("ResultT")

_READY_POLL_S = 0.02
_STOP_S = 5.0
_LAST_LINES = 8


class ChildFailed(WarmrouteError):
    """A process that the demo needs died, or did not become ready in time; the text has its last log lines."""


class Child:
    """One process and the file that takes what it writes."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ready(self, line: re.Pattern[str], timeout_s: float) -> re.Match[str]:
        """Wait for the first match of `line` in the log. Raises ChildFailed when it dies before, or takes too long."""
        try:
            async with asyncio.timeout(timeout_s):
                while (found := line.search(self.log.read_text("utf-8", "replace"))) is None:
                    if self.process.returncode is not None:
                        raise self._failure(f"ended with exit code {self.process.returncode}")
                    await asyncio.sleep(_READY_POLL_S)
        except TimeoutError as error:
            raise self._failure(f"was not ready after {timeout_s:g} s") from error
        return found

    async def failed(self) -> ChildFailed:
        """Wait until the process ends, and say how; nobody ends it while this is awaited."""
        code = await self.process.wait()
        return self._failure(f"ended with exit code {code}")

    async def stop(self) -> None:
        """End the process, by force where it does not go by itself; nothing where it has ended."""
        if self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), _STOP_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    def _failure(self, what: str) -> ChildFailed:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:]
        said = "\n".join(f"    {line}" for line in lines) or "    (it wrote nothing)"
        return ChildFailed(f"{self.name} {what}; its last lines:\n{said}\nthe whole log is {self.log}")


@asynccontextmanager
async def children(commands: Iterable[tuple[str, Sequence[str]]], logs: Path) -> AsyncIterator[list[Child]]:
    """Processes that live as long as the block: each a name and the words after `warmroute`."""
    started: list[Child] = []
    try:
        for name, words in commands:
            await _to_its_end(_start(name, words, logs / f"{name.replace(' ', '-')}.log", started))
        yield started
    finally:
        await _to_its_end(asyncio.gather(*(child.stop() for child in started)))


async def while_alive(watched: Sequence[Child], work: Awaitable[ResultT]) -> ResultT:
    """The result of `work`; raises ChildFailed as soon as one of the processes ends before it."""
    task = asyncio.ensure_future(work)
    deaths = [asyncio.ensure_future(child.failed()) for child in watched]
    try:
        await asyncio.wait([task, *deaths], return_when=asyncio.FIRST_COMPLETED)
        for death in deaths:
            if death.done():
                raise death.result()
        return await task
    finally:
        for waiting in (task, *deaths):
            waiting.cancel()
        await asyncio.gather(task, *deaths, return_exceptions=True)


async def _to_its_end(work: Awaitable[ResultT]) -> ResultT:
    """The result of `work`; a cancellation waits for it, so that no process is left half started or half ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _start(name: str, words: Sequence[str], log: Path, started: list[Child]) -> None:
    # A file and not a pipe: a pipe that nobody reads would stop the child once it is full.
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "warmroute",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the demo alone, which ends them in order
        )
    started.append(Child(name, process, log))


def _environment() -> dict[str, str]:
    """This process's environment without options for warmroute, which would change what is shown."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WARMROUTE_")}
    return kept | {"PYTHONUNBUFFERED": "1"}
