"""The headline of bench/relay.py: ours over the best peer that minds prefixes and was seen to do so."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from bench.environment import spread

Found = dict[str, Any]
Runs = dict[str, list[dict[str, Found]]]

OURS = "warmroute"
CPU_CELLS = ("200B", "8kB", "64kB", "200kB", "streams16", "streams100")
RPS_CELLS = {"short": "200B-c64", "streams": "streams16-c64"}
ADDED_CELLS = ("200B-one-core", "8kB-one-core", "streams16-one-core")


def headline(cells: Runs, mechanism: dict[str, list[Found]], direct: str) -> Found:
    """Ratios of medians; in `spread` those of the single repeats, and in `best_peer` who it was.

    A ratio is None where it, or a peer, was not measured.
    """
    peers = [name for name, told in mechanism.items() if name != OURS and all(each.get("worked") for each in told)]
    cpu = {name: _compared(cells, peers, name, _cpu, min) for name in CPU_CELLS}
    rps = {name: _compared(cells, peers, cell, _rps, max) for name, cell in RPS_CELLS.items()}
    added = {name: _compared(_added(cells, direct), peers, name, _p50, min) for name in ADDED_CELLS}
    every = {
        "cpu_ratio_over_best_peer": cpu,
        "rps_ratio_over_best_peer": rps,
        "added_p50_ratios_over_best_peer": added,
    }
    return {
        "cpu_ratio_over_best_peer": {name: each["ratio"] for name, each in cpu.items()},
        "rps_ratio_over_best_peer": {name: each["ratio"] for name, each in rps.items()},
        "added_p50_ratio_over_best_peer": added[ADDED_CELLS[0]]["ratio"],
        "added_p50_us": {
            name: {cell: _middle(runs, cell, _p50) for cell in ADDED_CELLS}
            for name, runs in _added(cells, direct).items()
        },
        "prefix_aware_peers_at_work": peers,
        "best_peer": {name: {cell: each["peer"] for cell, each in part.items()} for name, part in every.items()},
        "spread": {name: {cell: each["spread"] for cell, each in part.items()} for name, part in every.items()},
    }


Figure = Callable[[Found], float | None]
Best = Callable[[Sequence[float]], float]


def _compared(cells: Runs, peers: list[str], cell: str, figure: Figure, best: Best) -> Found:
    """Ours over the peer whose median is best; the repeats' ratios are those of repeats made one after the other."""
    ours = _middle(cells.get(OURS, []), cell, figure)
    found = {peer: _middle(cells[peer], cell, figure) for peer in peers}
    theirs = {peer: value for peer, value in found.items() if value is not None}
    if ours is None or not theirs:
        return {"ratio": None, "peer": None, "spread": None}
    leading = best(list(theirs.values()))
    peer = next(name for name, value in theirs.items() if value == leading)
    pairs = zip(_each(cells[OURS], cell, figure), _each(cells[peer], cell, figure), strict=True)
    ratios = [mine / other for mine, other in pairs if mine is not None and other]
    return {"ratio": ours / leading if leading else None, "peer": peer, "spread": spread(ratios) if ratios else None}


def _each(runs: list[dict[str, Found]], cell: str, figure: Figure) -> list[float | None]:
    return [figure(run[cell]) if cell in run else None for run in runs]


def _middle(runs: list[dict[str, Found]], cell: str, figure: Figure) -> float | None:
    values = [value for value in _each(runs, cell, figure) if value is not None]
    return median(values) if values else None


def _cpu(found: Found) -> float | None:
    value: float | None = found["router_cpu_us_per_request"]
    return value or None


def _rps(found: Found) -> float | None:
    value: float = found["requests_per_s"]
    return value or None


def _p50(found: Found) -> float | None:
    value: float | None = found["latency_us"]["p50"]
    return value


def _added(cells: Runs, direct: str) -> Runs:
    """The cells of one connection with what the way itself takes subtracted from the median."""
    own = {cell: _middle(cells.get(direct, []), cell, _p50) for cell in ADDED_CELLS}
    return {
        name: [{cell: _less(run[cell], own[cell]) for cell in ADDED_CELLS if cell in run} for run in runs]
        for name, runs in cells.items()
        if name != direct
    }


def _less(found: Found, own: float | None) -> Found:
    p50 = _p50(found)
    return {"latency_us": {"p50": None if p50 is None or own is None else p50 - own}}
