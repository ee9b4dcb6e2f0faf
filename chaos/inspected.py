"""`warmroute` with a window: at SIGUSR1 the process writes down what it holds, into the file CHAOS_INSPECTION.

    python -m chaos.inspected serve --port 0 ...

The router itself is unchanged; the parts are found among the objects of the process, once.
"""

import asyncio
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from warmroute.cli.main import main
from warmroute.gateway.relay import RelayServer
from warmroute.gateway.waiting import WaitingRoom
from warmroute.worker import WorkerTable

FILE_VARIABLE = "CHAOS_INSPECTION"
PartT = TypeVar("PartT")
_found: dict[type, list[Any]] = {}


def run() -> None:
    """Open the window, then be the command that the arguments name."""
    # Not in the handler: it may interrupt a step that leaves everything whole only at its end.
    signal.signal(signal.SIGUSR1, lambda *_: asyncio.get_running_loop().call_soon_threadsafe(_look))
    sys.exit(main())


def _look() -> None:
    path = Path(os.environ[FILE_VARIABLE])
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(_seen()))
    unfinished.replace(path)


def _seen() -> dict[str, Any]:
    relays, tables, rooms = _parts(RelayServer), _parts(WorkerTable), _parts(WaitingRoom)
    return {
        "tasks": sorted(task.get_coro().__qualname__ for task in asyncio.all_tasks()),  # type: ignore[union-attr]
        "threads": threading.active_count(),
        "relay_in_flight": sum(relay.in_flight() for relay in relays),
        "arrivals": sum(relay.counts.arrivals for relay in relays),
        "outcomes": sum(relay.counts.outcomes for relay in relays),
        "failed_attempts": sum(relay.counts.failed_attempts for relay in relays),
        "unanswered": sum(relay.counts.unanswered for relay in relays),
        "callback_errors": sum(relay.counts.callback_errors for relay in relays),
        "booked": sum(worker.requests for table in tables for worker in table),
        "queued": sum(map(len, rooms)),
        "queue_ends": {f"queued, then {end}": count for room in rooms for end, count in room.counts.ends.items()},
        "broken": [*_broken(tables, WorkerTable.check_integrity), *_broken(rooms, WaitingRoom.check_integrity)],
    }


def _broken(parts: list[PartT], check: Callable[[PartT], None]) -> list[str]:
    found = []
    for part in parts:
        try:
            check(part)
        except AssertionError as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            found.append(f"{type(part).__name__}: {error or place.line}")
    return found


def _parts(kind: type[PartT]) -> list[PartT]:
    if not _found.get(kind):
        _found[kind] = [each for each in gc.get_objects() if isinstance(each, kind)]
    return _found[kind]


if __name__ == "__main__":
    run()
