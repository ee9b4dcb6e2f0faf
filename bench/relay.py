"""What a request costs on its way through the router, beside the Rust routers and nginx.

Growing conversations go in closed loops from one client through each router by turns to fake vLLM workers, which answer
at once and publish KV events as engines do. Workers and client are on the first core, the router with all its threads
on the last. Every answer is compared byte for byte with what the worker sent. What the routers decide on is not the
same: the result says it, and whether it was at work.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import relay_decisions, relay_streams
from bench.environment import environment
from bench.json_process import ROOT
from bench.relay_cells import (
    CELLS,
    GRID,
    GRID_SECONDS,
    JUDGED,
    QUICK_CELLS,
    QUICK_GRID,
    SECONDS,
    Cell,
    Found,
    cells_through,
    mechanism,
    worked,
)
from bench.relay_load import Load, Placement, Workers, build, placement, running_workers
from bench.relay_ratios import headline
from bench.relay_routers import PEERS, WARMROUTE, Router, Running, install, nginx_program, running

RESULT = ROOT / "bench" / "results" / "relay.json"
WORKERS = 4
DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    cells: Sequence[Cell]
    grid: Sequence[Cell]
    seconds: float
    grid_seconds: float
    repeats: int
    idle: int
    ladder: tuple[int, ...]
    fleets: tuple[int, ...]
    profile: str = "release"

    @classmethod
    def whole(cls, repeats: int, seconds: float) -> "Extent":
        streams = (relay_streams.IDLE_STREAMS, relay_streams.LADDER)
        return cls(CELLS, GRID, seconds, min(GRID_SECONDS, seconds), repeats, *streams, relay_decisions.FLEETS)

    @classmethod
    def quick(cls) -> "Extent":
        return cls(QUICK_CELLS, QUICK_GRID, 0.3, 0.1, 1, 20, (10, 20), (2,), profile="dev")


@dataclass(slots=True)
class Measured:
    """By router: the cells of each repeat, every combination once, what was counted, and the streams."""

    cells: dict[str, list[dict[str, Found]]] = field(default_factory=dict)
    grid: dict[str, dict[str, Found]] = field(default_factory=dict)
    mechanism: dict[str, list[Found]] = field(default_factory=dict)
    idle: dict[str, Found] = field(default_factory=dict)
    active: dict[str, Found] = field(default_factory=dict)


class Bench:
    """One run: the same workers, cores and extent for everybody."""

    def __init__(self, program: Path, cores: Placement, extent: Extent) -> None:
        self._program = program
        self._cores = cores
        self._extent = extent
        self.measured = Measured()

    def cells(self, router: Router | None) -> None:
        """One repeat of all cells, of a router or of the direct way; a peer that fails has none, and is not at work."""
        name = _name(router)
        try:
            found, told = self._cells(router)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            if router in (None, WARMROUTE):
                raise
            say(f"{name} failed: {error}")
            found, told = {}, {"worked": False, "error": str(error)}
        self.measured.cells.setdefault(name, []).append(found)
        self.measured.mechanism.setdefault(name, []).append(told)

    def _cells(self, router: Router | None) -> tuple[dict[str, Found], Found]:
        with self._workers() as workers, _maybe(router, workers, self._cores.router) as started:
            found = dict(cells_through(started, workers, self._extent.cells, self._cores, self._extent.seconds))
            return found, self._judged(started, mechanism(started, workers), found)

    def grid(self, router: Router | None) -> None:
        """Every combination, once; a peer that fails has what it got to."""
        found = self.measured.grid.setdefault(_name(router), {})
        cells, seconds = self._extent.grid, self._extent.grid_seconds
        with (
            _a_peer_may_fail(router),
            self._workers() as workers,
            _maybe(router, workers, self._cores.router) as started,
        ):
            found.update(cells_through(started, workers, cells, self._cores, seconds))

    def streams(self, router: Router | None) -> None:
        """Idle and active streams, once; a peer that fails has what it got to."""
        with _a_peer_may_fail(router):
            self._streams(router)

    def _streams(self, router: Router | None) -> None:
        seconds = 2 * self._extent.seconds
        name = _name(router)
        with self._workers() as workers, _maybe(router, workers, self._cores.router) as started:
            targets = workers.addresses if started is None else [started.target]
            load = Load(self._program, targets, self._cores.load, started.pids() if started else ())
            self.measured.active[name] = relay_streams.active_streams(load, seconds, self._extent.ladder)
        if router is None:
            return
        with self._workers() as workers, running(router, workers, self._cores.router) as started:
            try:
                idle = relay_streams.idle_streams(started, workers, self._cores, self._extent.idle, seconds)
            except (RuntimeError, OSError) as error:
                idle = {"wanted": self._extent.idle, "error": str(error)}
            self.measured.idle[name] = idle

    def one_process(self) -> list[Found]:
        return relay_decisions.one_process(self._program, self._cores, self._extent.fleets, self._extent.seconds)

    @contextmanager
    def _workers(self) -> Iterator[Workers]:
        with running_workers(self._program, WORKERS, self._cores.load) as workers:
            yield workers

    def _judged(self, started: Running | None, told: Found, found: dict[str, Found]) -> Found:
        """What was counted, and whether the router's way of minding prefixes was at work in this repeat."""
        share = found[JUDGED]["cached_token_share"] or 0.0
        if started is None:
            return {**told, "cached_token_share": share}
        direct = self._share(DIRECT)
        round_robin = self._share("nginx") if "nginx" in self.measured.cells and started.router.prefix_aware else None
        at_work = started.router.prefix_aware and worked(started, told, share, direct, round_robin)
        return {**told, "cached_token_share": share, "worked": at_work}

    def _share(self, name: str) -> float:
        last = self.measured.cells[name][-1]
        return float(last[JUDGED]["cached_token_share"] or 0.0) if last else 0.0


def _name(router: Router | None) -> str:
    return DIRECT if router is None else router.name


@contextmanager
def _a_peer_may_fail(router: Router | None) -> Iterator[None]:
    """Says what became of a peer; ours and the direct way must work."""
    try:
        yield
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        if router in (None, WARMROUTE):
            raise
        say(f"{_name(router)} failed: {error}")


@contextmanager
def _maybe(router: Router | None, workers: Workers, core: int) -> Iterator[Running | None]:
    if router is None:
        yield None
        return
    with running(router, workers, core) as started:
        yield started


def measure(routers: Sequence[Router], extent: Extent, streamed: Sequence[Router]) -> dict[str, Any]:
    """All of it, as one object; very many streams through `streamed` alone."""
    started = environment()
    files = relay_streams.raise_file_limit()
    bench = Bench(build(extent.profile), placement(), extent)
    for repeat in range(extent.repeats):
        for router in (None, *routers):
            say(f"run {repeat + 1} of {extent.repeats}: {_name(router)}")
            bench.cells(router)
    for router in (None, *routers):
        say(f"every combination: {_name(router)}")
        bench.grid(router)
    for router in (None, *streamed):
        say(f"streams: {_name(router)}")
        bench.streams(router)
    ours = WARMROUTE in routers
    if ours:
        say("one process")
    one_process = bench.one_process() if ours else []
    measured, cores = bench.measured, placement()
    return {
        "question": "what a request costs on its way through the router, beside the Rust routers and nginx",
        **headline(measured.cells, measured.mechanism, DIRECT),
        "idle_streams": measured.idle,
        "active_streams": measured.active,
        "one_process": one_process,
        "decides_on": {router.name: router.decides_on for router in routers},
        "mechanism": measured.mechanism,
        "cells": measured.cells,
        "grid": measured.grid,
        "cell_definitions": [dataclasses.asdict(cell) for cell in extent.cells],
        "grid_definitions": [dataclasses.asdict(cell) for cell in extent.grid],
        "workers": WORKERS,
        "seconds": extent.seconds,
        "grid_seconds": extent.grid_seconds,
        "cores": {"workers_and_client": cores.load, "router": cores.router},
        "open_files": files,
        "environment": started,
        "seed": 0,
        "repeats": extent.repeats,
    }


def say(what: str) -> None:
    print(f"relay: {what}", file=sys.stderr, flush=True)


def chosen(only: Sequence[str], with_peers: bool) -> list[Router]:
    """The routers whose names begin with one of `only`, else all; nginx, their floor, is the first."""
    peers = [peer for peer in PEERS if peer.name != "nginx" or nginx_program()] if with_peers else []
    routers = [*peers, WARMROUTE]
    return [router for router in routers if not only or any(router.name.startswith(name) for name in only)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--quick", action="store_true", help="few and short, to see that it works; writes no result")
    parser.add_argument("--without-peers", action="store_true", help="measure ours and the direct way alone")
    parser.add_argument("--streams-without-peers", action="store_true", help="very many streams through ours alone")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="routers whose names begin so")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each cell")
    parser.add_argument("--out", type=Path, default=None, help=f"where the result goes (default: {RESULT.name})")
    options = parser.parse_args()
    if not options.without_peers:
        try:
            install()
        except subprocess.CalledProcessError:
            sys.exit("relay: the other routers cannot be installed (see above); --without-peers leaves them out")
    extent = Extent.quick() if options.quick else Extent.whole(options.repeats, options.seconds)
    routers = chosen(options.only, not options.without_peers)
    streamed = [router for router in routers if router is WARMROUTE or not options.streams_without_peers]
    result = measure(routers, extent, streamed)
    if result["environment"]["native_build"] != "release":
        say("this is a debug build, its figures mean nothing; run: make build")
    out = options.out or (None if options.quick or options.only else RESULT)
    if out is not None:
        out.write_text(json.dumps(result, indent=1) + "\n")
        say(f"wrote {out}")
    print(json.dumps(result) if options.json else "\n".join(show(result)))


def show(result: dict[str, Any]) -> Iterator[str]:
    """The ratios of the headline, a line each."""
    for name in ("cpu_ratio_over_best_peer", "rps_ratio_over_best_peer"):
        for cell, ratio in result[name].items():
            yield f"{name}, {cell:12} {'-' if ratio is None else f'{ratio:.2f}'}"
    ratio = result["added_p50_ratio_over_best_peer"]
    yield f"added_p50_ratio_over_best_peer {'-' if ratio is None else f'{ratio:.2f}'}"


if __name__ == "__main__":
    main()
