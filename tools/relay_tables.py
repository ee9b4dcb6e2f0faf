"""The tables of bench/relay.py's result."""

from collections.abc import Iterable
from statistics import median

from tools.tables import Result, machine, table, us

_SIZES = {"200B": "200 B", "8kB": "8 kB", "64kB": "64 kB", "200kB": "200 kB"}
_STREAMS = {"streams16": "stream of 16", "streams100": "stream of 100"}
_RPS = {"200B-c1": "1", "200B": "16", "200B-c64": "64", "200B-c256": "256"}
_ADDED = {"200B-one-core": "200 B", "8kB-one-core": "8 kB", "streams16-one-core": "stream of 16"}


def _middle(result: Result, router: str, cell: str, *path: str) -> float | None:
    """The median over the repeats of one figure of a cell; None where it was not measured."""
    values = []
    for run in result["cells"][router]:
        value = run.get(cell)
        for name in path:
            value = value[name] if value is not None else None
        if value:
            values.append(float(value))
    return median(values) if values else None


def _told(value: float | None) -> str:
    return "-" if value is None else us(value)


def _routers(result: Result) -> list[str]:
    return [name for name in result["cells"] if name != "direct"]


def cost(result: Result) -> str:
    """Processor time of each router per request, by body and by answer, with what it decides on."""
    cells = {**_SIZES, **_STREAMS}
    heads = ("router", "decides on", *cells.values())
    rows = []
    for name in _routers(result):
        figures = [_told(_middle(result, name, cell, "router_cpu_us_per_request")) for cell in cells]
        rows.append([name, result["decides_on"][name], *figures])
    return (
        f"{table(heads, rows)}\n\nMicroseconds of processor time, user and system, per request at 16 connections, "
        f"medians of {result['repeats']} repeats; the streams have bodies of 8 kB. Measured on {machine(result)}."
    )


def at_work(result: Result) -> str:
    """What was counted of each router's way to mind prefixes."""
    heads = (
        "router",
        "cached tokens",
        "asked for tokens, per request",
        "hear events",
        "bodies changed",
        "at work",
    )
    rows = []
    for name in result["cells"]:
        runs = [told for told in result["mechanism"][name] if "error" not in told]
        if not runs:
            rows.append([name, *("-" for _ in heads[1:-1]), "no"])
            continue
        told = runs[-1]
        asked = told["render_calls_per_request"] + told["tokenize_calls_per_request"]
        changed = any(cell["bodies_changed"] for run in result["cells"][name] for cell in run.values())
        share = _middle(result, name, "8kB-with-pauses", "cached_token_share")
        at_work = "-" if "worked" not in told else "yes" if all(each["worked"] for each in runs) else "no"
        heard = f"{told['event_subscribers']} of {result['workers']}"
        counted = ["-" if share is None else f"{share:.1%}", f"{asked:.1f}", heard]
        rows.append([name, *counted, "yes" if changed else "no", at_work])
    return table(heads, rows)


def speed(result: Result) -> str:
    """Requests a second by connections, with latency, and what a request takes longer where all share one core."""
    heads = ["", *(f"{count} connections" for count in _RPS.values()), "64, streams of 16", "p50 ms at 16", "p99"]
    heads += [f"added p50 us, {what}" for what in _ADDED.values()]
    rows = []
    for name in result["cells"]:
        cells = [*_RPS, "streams16-c64"]
        rates = [_middle(result, name, cell, "requests_per_s") for cell in cells]
        times = [_middle(result, name, "200B", "latency_us", which) for which in ("p50", "p99")]
        added = result["added_p50_us"].get(name, {})
        rows.append(
            [
                name,
                *("-" if rate is None else f"{rate:,.0f}" for rate in rates),
                *("-" if time is None else f"{time / 1000:.1f}" for time in times),
                *("-" if added.get(cell) is None else f"{added[cell]:,.0f}" for cell in _ADDED),
            ]
        )
    return (
        f"{table(heads, rows)}\n\nRequests per second, bodies of 200 B but for the streams (8 kB). The added time is "
        "that of one connection with workers, client and router on one core, less the direct way's."
    )


def ratios(result: Result) -> str:
    """Ours over the best peer, by cell, with the least and the greatest of the repeats."""
    heads = ("ours over the best peer", "ratio", "least", "most", "the peer")
    parts = {
        "cpu_ratio_over_best_peer": ("processor time", result["cpu_ratio_over_best_peer"]),
        "rps_ratio_over_best_peer": ("requests/s", result["rps_ratio_over_best_peer"]),
    }
    rows = []
    for part, (what, found) in parts.items():
        for cell, ratio in found.items():
            rows.append(_ratio(result, part, cell, f"{what}, {cell}", ratio))
    added = "added_p50_ratios_over_best_peer"
    cell = next(iter(_ADDED))
    rows.append(_ratio(result, added, cell, "added p50, one connection", result["added_p50_ratio_over_best_peer"]))
    aware = ", ".join(result["prefix_aware_peers_at_work"]) or "none"
    return f"{table(heads, rows)}\n\nPeers that minded prefixes in every repeat: {aware}."


def _ratio(result: Result, part: str, cell: str, label: str, ratio: float | None) -> list[str]:
    spread, peer = result["spread"][part][cell], result["best_peer"][part][cell]
    if ratio is None or spread is None:
        return [label, "-", "-", "-", "-"]
    return [label, f"{ratio:.2f}", f"{spread['min']:.2f}", f"{spread['max']:.2f}", peer or "-"]


def streams(result: Result) -> str:
    """What idle streams weigh, and how many busy ones are carried in time."""
    heads = ("", "idle streams", "kB each", "CPU while idle", "busy streams in time", "us per chunk", "late p99, ms")
    rows = []
    for name, active in result["active_streams"].items():
        idle, compared = result["idle_streams"].get(name, {}), active["at_compared"]
        known = "error" not in idle and bool(idle)
        weighed = [f"{idle['streams']:,}", f"{idle['rss_bytes_per_stream'] / 1000:.1f}"] if known else ["-", "-"]
        share = f"{idle['cpu_share_while_idle']:.1%}" if known else "-"
        chunk = compared.get("router_cpu_us_per_chunk") if name != "direct" else None
        late = "-" if "error" in compared else f"{compared['late_us']['p99'] / 1000:.1f}"
        rows.append([name, *weighed, share, f"{active['highest']:,}", _told(chunk), late])
    return (
        f"{table(heads, rows)}\n\nBusy streams have 20 chunks a second each; in time: 99 of 100 chunks come within "
        "250 ms of when they were due, and none is missing. Time per chunk and lateness are those at "
        f"{_compared(result)} streams. No more than {result['open_files']:,} files may be open here."
    )


def _compared(result: Result) -> str:
    opened: Iterable[int] = (
        active["at_compared"]["streams"]["open"]
        for active in result["active_streams"].values()
        if "error" not in active["at_compared"]
    )
    return f"{max(opened, default=0):,}"


def grid(result: Result) -> str:
    """Every combination of answer, connections and body once: processor time of ours, and over the best peer's."""
    cells = result["grid_definitions"]
    sizes = sorted({cell["size"] for cell in cells})
    rows = []
    for chunks in sorted({cell["chunks"] for cell in cells}):
        for connections in sorted({cell["connections"] for cell in cells}):
            answer = f"stream of {chunks}" if chunks else "whole"
            named = {
                cell["size"]: cell["name"]
                for cell in cells
                if (cell["chunks"], cell["connections"]) == (chunks, connections)
            }
            rows.append([answer, f"{connections}", *(_grid_cell(result, named[size]) for size in sizes)])
    heads = ("answer", "connections", *(f"{size / 1000:g} kB" for size in sizes))
    return (
        f"{table(heads, rows)}\n\nMicroseconds of processor time per request, and how many times the best prefix-aware "
        f"peer's that is; each combination once, for {result['grid_seconds']:g} s, so single ones may be off."
    )


def _grid_cell(result: Result, name: str) -> str:
    costs = {
        router: cell["router_cpu_us_per_request"]
        for router, cells in result["grid"].items()
        if (cell := cells.get(name)) and cell["requests"]
    }
    ours = costs.get("warmroute")
    peers = [costs[peer] for peer in result["prefix_aware_peers_at_work"] if costs.get(peer)]
    if not ours or not peers:
        return _told(ours)
    return f"{us(ours)} ({ours / min(peers):.2f})"


def decisions(result: Result) -> str:
    """What one process on one core does, by the size of its fleet."""
    heads = ("workers", "requests/s, 200 B", "us each", "requests/s, 8 kB", "us each", "CPU without requests", "MiB")
    rows = []
    for row in result["one_process"]:
        if "error" in row:
            rows.append([f"{row['workers']:,}", *("-" for _ in heads[1:])])
            continue
        figures = []
        for size in ("200B", "8kB"):
            figures += [f"{row[size]['requests_per_s']:,.0f}", _told(row[size]["router_cpu_us_per_request"])]
        rows.append(
            [
                f"{row['workers']:,}",
                *figures,
                f"{row['idle_cpu_share']:.0%}",
                f"{row['resident_bytes'] / 2**20:,.0f}",
            ]
        )
    return table(heads, rows)
