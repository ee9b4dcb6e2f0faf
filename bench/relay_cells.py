"""What is measured of each router: cells of connections, body size and answer, and whether it minded prefixes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from bench.relay_load import Load, Placement, Workers, move
from bench.relay_routers import Running

Found = dict[str, Any]

WARM_S = 0.8
SECONDS = 3.0
GRID_SECONDS = 0.7


@dataclass(frozen=True, slots=True)
class Cell:
    """`size` is the mean body in bytes; `chunks` of a streamed answer, 0 for a short one at once.

    With `one_core` the workers, the client and the router share the router's core. `pause_ms` lies between an answer
    and the next request of its conversation.
    """

    name: str
    connections: int
    size: int
    chunks: int = 0
    one_core: bool = False
    pause_ms: int = 0


SIZES = {"200B": 200, "8kB": 8_000, "64kB": 64_000, "200kB": 200_000}
# Where it is judged whether prefixes are minded. Engines take longer than these workers, and routers that look for
# events every few milliseconds only (vllm-router: every 10) must not be judged by conversations that never rest.
JUDGED = "8kB-with-pauses"

# Measured long and repeatedly, for the headline: each size and each answer at 16 connections, each number of
# connections at the smallest body, and those between at which routers have been seen to part.
CELLS = (
    *(Cell(name, 16, size) for name, size in SIZES.items()),
    Cell("streams16", 16, 8_000, chunks=16),
    Cell("streams100", 16, 8_000, chunks=100),
    Cell("200B-c1", 1, 200),
    Cell("200B-c64", 64, 200),
    Cell("200B-c256", 256, 200),
    Cell("64kB-c64", 64, 64_000),
    Cell("streams16-200B", 16, 200, chunks=16),
    Cell("streams16-c64", 64, 8_000, chunks=16),
    Cell(JUDGED, 16, 8_000, pause_ms=50),
    Cell("200B-one-core", 1, 200, one_core=True),
    Cell("8kB-one-core", 1, 8_000, one_core=True),
    Cell("streams16-one-core", 1, 8_000, chunks=16, one_core=True),
)
# Measured once and shortly: every number of connections with every size and every answer.
GRID_CONNECTIONS = (1, 16, 64, 256)
GRID_CHUNKS = (0, 16, 100)
GRID = tuple(
    Cell(f"{name} x {connections}, {chunks} chunks" if chunks else f"{name} x {connections}", connections, size, chunks)
    for chunks, connections, (name, size) in product(GRID_CHUNKS, GRID_CONNECTIONS, SIZES.items())
)
QUICK_GRID = tuple(cell for cell in GRID if cell.connections == 16 and cell.size <= 8_000)

QUICK_CELLS = tuple(cell for cell in CELLS if cell.name in {"200B", "streams16", JUDGED, "200B-one-core"})

# Enough that no two cells of a run tell the same conversations, which the workers would then hold already.
_CONVERSATIONS_APART = 100_000


def cells_through(
    running: Running | None, workers: Workers, cells: Sequence[Cell], cores: Placement, seconds: float
) -> Iterator[tuple[str, Found]]:
    """Every cell, in order, through a router or, for None, each connection straight to a worker of its own."""
    targets = workers.addresses if running is None else [running.target]
    pids = [] if running is None else running.pids()
    try:
        for number, cell in enumerate(cells):
            core = cores.router if cell.one_core else cores.load
            move([workers.pid], core)
            load = Load(workers.program, targets, core, pids)
            found = load.ask(
                "client",
                connections=cell.connections,
                first_conversation=number * _CONVERSATIONS_APART,
                size=cell.size,
                chunks=cell.chunks,
                pause_ms=cell.pause_ms,
                warm_s=min(WARM_S, seconds),
                seconds=seconds,
            )
            yield cell.name, found
    finally:
        move([workers.pid], cores.load)


def mechanism(running: Running | None, workers: Workers) -> Found:
    """What workers and router counted over all cells: who got how much, who was asked for tokens, who heard events."""
    counts = workers.counts()
    paths: Mapping[str, int] = counts["paths"]
    chats = max(1, paths.get("/v1/chat/completions", 0))
    per_worker = {host: paths.get(f"/v1/chat/completions {host}", 0) for host in workers.hosts}
    return {
        "requests_per_worker": per_worker,
        "render_calls_per_request": paths.get("/v1/chat/completions/render", 0) / chats,
        "tokenize_calls_per_request": paths.get("/tokenize", 0) / chats,
        "event_subscribers": counts["subscribers"],
        "event_batches": counts["batches"],
        "own_metrics": {} if running is None else running.metrics("cache", "prompts", "kv", "index", "policy"),
    }


def worked(running: Running, told: Found, share: float, direct: float, round_robin: float | None) -> bool:
    """Whether a router's way to mind prefixes was at work.

    `share`: of the prompts' tokens, those that were cached where they went. It must close half of the gap at least
    between round robin and what connections get that stay with one worker; and tokens must have been asked for and
    events heard by those that decide on them.
    """
    floor = 0.0 if round_robin is None else round_robin
    minded = share - floor >= 0.5 * (direct - floor)
    router = running.router
    asked = told["render_calls_per_request"] + told["tokenize_calls_per_request"] >= 0.9 or not router.asks_workers
    heard = told["event_subscribers"] > 0 or not router.hears_events
    return bool(minded and asked and heard)
