"""How many decisions one router process makes, by the size of its fleet: does one suffice for a thousand replicas?"""

import time
from pathlib import Path
from typing import Any

from bench.kv_ingest import cpu_seconds
from bench.relay_load import Load, Placement, running_workers
from bench.relay_routers import WARMROUTE, running

FLEETS = (2, 64, 1_000)
SIZES = {"200B": 200, "8kB": 8_000}
CONNECTIONS = 64


def one_process(program: Path, cores: Placement, fleets: tuple[int, ...], seconds: float) -> list[dict[str, Any]]:
    """A row for each fleet: requests a second through one process on one core, and its processor time without any."""
    return [_told(program, cores, fleet, seconds) for fleet in fleets]


def _told(program: Path, cores: Placement, fleet: int, seconds: float) -> dict[str, Any]:
    """The row; with `error` where a fleet of that size was not got to work, because the others' figures stay."""
    try:
        return _fleet(program, cores, fleet, seconds)
    except RuntimeError as error:
        return {"workers": fleet, "error": str(error)}


def _fleet(program: Path, cores: Placement, fleet: int, seconds: float) -> dict[str, Any]:
    with running_workers(program, fleet, cores.load) as workers, running(WARMROUTE, workers, cores.router) as router:
        used, began = cpu_seconds(router.pid), time.monotonic()
        time.sleep(seconds)
        idle = (cpu_seconds(router.pid) - used) / (time.monotonic() - began)
        load = Load(program, [router.target], cores.load, router.pids())
        found = {
            name: load.ask(
                "client",
                connections=CONNECTIONS,
                first_conversation=0,
                size=size,
                chunks=0,
                pause_ms=0,
                warm_s=min(1.0, seconds),
                seconds=seconds,
            )
            for name, size in SIZES.items()
        }
        return {"workers": fleet, "idle_cpu_share": idle, "resident_bytes": router.resident_bytes(), **found}
