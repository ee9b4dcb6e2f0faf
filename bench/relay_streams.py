"""Very many streams at once: what idle ones weigh, and how many can be carried without coming late."""

import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.kv_ingest import cpu_seconds
from bench.relay_load import Load, Placement, Workers
from bench.relay_routers import Running

Found = dict[str, Any]

IDLE_STREAMS = 10_000
ACTIVE_STREAMS = 5_000
INTERVAL_MS = 50
LATE_P99_MS = 250.0
# The counts among which the highest is sought.
LADDER = (250, 500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, ACTIVE_STREAMS)
COMPARED_STREAMS = 500
_SPARE_FILES = 200


def raise_file_limit() -> int:
    """Files that this process and its children may open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def possible(streams: int) -> int:
    """As many as a router can carry here, which needs two files for each."""
    return min(streams, (raise_file_limit() - _SPARE_FILES) // 2)


def idle_streams(running: Running, workers: Workers, cores: Placement, wanted: int, seconds: float) -> Found:
    """Resident bytes per stream, and processor time while nothing is said; the same time before the streams."""
    streams = possible(wanted)
    load = Load(workers.program, [running.target], cores.load)
    resident, before = running.resident_bytes(), _cpu_share(running, seconds)
    held = load.hold(streams)
    try:
        opened = held.hear()
        time.sleep(1.0)
        during, grown = _cpu_share(running, seconds), running.resident_bytes() - resident
        held.tell("")
        at_the_end = held.hear()
    finally:
        held.end()
    count = max(1, opened["open"])
    return {
        "wanted": wanted,
        "streams": opened["open"],
        "failed": opened["failed"],
        "lost_while_idle": opened["open"] - at_the_end["open"],
        "rss_bytes_per_stream": grown / count,
        "rss_bytes_before": resident,
        "cpu_share_without_streams": before,
        "cpu_share_while_idle": during,
    }


def _cpu_share(running: Running, seconds: float) -> float:
    pids = running.pids()
    used, began = sum(map(cpu_seconds, pids)), time.monotonic()
    time.sleep(seconds)
    pids = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    return (sum(map(cpu_seconds, pids)) - used) / (time.monotonic() - began)


def paced(load: Load, streams: int, seconds: float) -> Found:
    """That many streams, 20 chunks a second on each: how late chunks came. `error` where it could not be done."""
    try:
        return load.ask(
            "paced",
            streams=streams,
            interval_ms=INTERVAL_MS,
            warm_s=min(2.0, seconds),
            seconds=seconds,
        )
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}


def holds(found: Found, streams: int) -> bool:
    """Whether all streams were carried, all their chunks came, and 99 of 100 came in time."""
    if "error" in found or found["streams"]["failed"] or found["streams"]["open"] < streams:
        return False
    complete = found["chunks_per_s"] >= 0.95 * streams * 1000 / INTERVAL_MS
    return bool(complete and found["late_us"]["p99"] <= 1000 * LATE_P99_MS)


def highest(trial: Callable[[int], Found], ladder: tuple[int, ...] = LADDER) -> Found:
    """The highest count of the ladder that holds, sought by halves, with what was found at each that was tried."""
    tried: dict[str, Found] = {}
    low, high = -1, len(ladder)
    # The whole count first: where it holds there is nothing to seek.
    place = len(ladder) - 1
    while high - low > 1:
        found = trial(ladder[place])
        tried[str(ladder[place])] = found
        low, high = (place, high) if holds(found, ladder[place]) else (low, place)
        place = (low + high) // 2
    return {"highest": ladder[low] if low >= 0 else 0, "tried": tried}


def active_streams(load: Load, seconds: float, ladder: tuple[int, ...]) -> Found:
    """The highest count that holds, and what each chunk costs at a count that everybody carries."""
    compared = paced(load, min(COMPARED_STREAMS, ladder[-1]), seconds)
    return {**highest(lambda streams: paced(load, streams, seconds), ladder), "at_compared": compared}
