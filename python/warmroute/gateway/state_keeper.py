"""Keeps the state file: read at start, written at intervals and at shutdown, in a thread of its own.

    load -> start -> (save every interval) -> save when a shutdown begins -> close: save once more, when it is over

What is loaded is not believed: each lane is verified against its engine before it counts as complete, by the listener
that it is given to. The router serves meanwhile.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmroute._native import __version__
from warmroute.gateway.state_file import LaneState, SavedState, UnusableState, leftovers, read, write

_log = logging.getLogger(__name__)

TakeLanes = Callable[[], Awaitable[Sequence[LaneState]]]

# What the listeners may take to hand out their lanes. Beyond it one of them hangs, and a shutdown must not.
_TAKE_LIMIT_S = 10.0
# At most this share of the time goes into saving, so that a large index is written less often.
_MOST_OF_THE_TIME = 0.05


@dataclass(slots=True)
class StateKeeper:
    """Owns one state file. With `path` None it keeps nothing, and every call returns at once."""

    path: Path | None
    interval_s: float
    saved_at: float | None = field(default=None, init=False)
    saved_bytes: int | None = field(default=None, init=False)
    problem: str | None = field(default=None, init=False)
    _take: TakeLanes | None = field(default=None, init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    # One thread: a save that was given up at a shutdown still runs there, and the last one must come after it.
    _executor: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "state"), init=False)

    async def load(self, workers: Collection[str]) -> tuple[LaneState, ...]:
        """The lanes of the file that belong to one of `workers`; none, and one line in the log, where it is unusable.

        An unusable file is set aside as NAME.refused, so that the next save costs nobody the only copy of anything.
        """
        if self.path is None:
            return ()
        loop = asyncio.get_running_loop()
        try:
            state = await loop.run_in_executor(self._executor, _read_cleanly, self.path)
        except UnusableState as error:
            kept = await loop.run_in_executor(self._executor, _set_aside, self.path)
            _log.warning("state file %s is not used: %s; the router starts empty%s", self.path, error, kept)
            return ()
        if state is None:
            _log.info("no state file %s yet; the router starts empty", self.path)
            return ()
        return _wanted(state, frozenset(workers), self.path)

    def start(self, take: TakeLanes) -> None:
        """Save what `take` gives at each interval, from now on until `close`."""
        if self.path is not None:
            self._take = take
            self._task = asyncio.create_task(self._run(), name="save state")

    async def save(self) -> None:
        """Write the file now. What goes wrong is logged, once for each reason, and never raised."""
        if self.path is None or self._take is None:
            return
        try:
            async with asyncio.timeout(_TAKE_LIMIT_S):
                lanes = tuple(await self._take())
            state = SavedState(time.time(), __version__, lanes)
            loop = asyncio.get_running_loop()
            self.saved_bytes = await loop.run_in_executor(self._executor, write, self.path, state)
        except TimeoutError:
            self._note(f"the listeners did not hand out their lanes within {_TAKE_LIMIT_S:g} s")
        except UnusableState as error:
            self._note(str(error))
        except Exception as error:  # the saving must go on, and a shutdown too
            _log.exception("state file %s is not written", self.path)
            self.problem = repr(error)
        else:
            self.saved_at, self.problem = state.saved_at, None
            _log.debug("state file %s: %d lanes, %d bytes", self.path, len(lanes), self.saved_bytes)

    async def close(self) -> None:
        """End the saving, and save a last time. May be called twice."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self.save()
            self._take = None
        self._executor.shutdown()

    def abandon(self) -> None:
        """Write nothing more: the file is another process's now."""
        self.path = None

    def report(self) -> dict[str, Any] | None:
        """The file as people see it; None where none is kept."""
        if self.path is None:
            return None
        return {
            "path": str(self.path),
            "saved_s_ago": None if self.saved_at is None else max(0.0, time.time() - self.saved_at),
            "bytes": self.saved_bytes,
            "problem": self.problem,
        }

    async def _run(self) -> None:
        pause_s = self.interval_s
        while True:
            await asyncio.sleep(pause_s)
            began_at = time.monotonic()
            await self.save()
            pause_s = max(self.interval_s, (time.monotonic() - began_at) / _MOST_OF_THE_TIME)

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            _log.warning(
                "state file %s: %s; a restart now would begin with an older picture or none", self.path, problem
            )
        self.problem = problem


def _read_cleanly(path: Path) -> SavedState | None:
    with contextlib.suppress(OSError):  # a folder that cannot be written to: saving will say so
        for leftover in leftovers(path):
            leftover.unlink(missing_ok=True)
    return read(path)


def _set_aside(path: Path) -> str:
    """Where the file is kept from now on, as the end of a log line."""
    aside = path.with_name(path.name + ".refused")
    if not path.is_file():
        return ""
    try:
        os.replace(path, aside)
    except OSError as error:
        return f", and it cannot be set aside: {error.strerror}"
    return f", and the file is kept as {aside.name}"


def _wanted(state: SavedState, workers: Collection[str], path: Path) -> tuple[LaneState, ...]:
    wanted = tuple(lane for lane in state.lanes if lane.worker in workers)
    left_out = sorted({lane.worker for lane in state.lanes} - set(workers))
    _log.info(
        "state file %s: %d lanes as of %.0f s ago; each is verified against its engine",
        path,
        len(wanted),
        max(0.0, time.time() - state.saved_at),
    )
    if left_out:
        _log.info("left out of it, for they are not configured now: %s", ", ".join(left_out))
    return wanted
