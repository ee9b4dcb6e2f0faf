"""Writes the figures of bench/results into the documents, between their markers; `--check` only compares.

No figure stands in a document that was not rendered from a result. The plots are drawn by tools/plot_results.py, which
leaves in them what they were drawn from, so that an old plot is found here as well.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


from tools import decision_tables, doctor_tables, matrix_tables, relay_tables, simulation_tables, trust_tables
from tools.tables import Result, machine, millions, table, us

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
IMAGES = ROOT / "docs" / "images"


def demo(result: Result) -> str:
    """The median over the seeds, and on what it was measured."""
    heads = ("policy", "TTFT p50", "TTFT p90", "TTFT p99", "cached tokens", "requests/s")
    workload, where = result["workload"], result["environment"]
    ratio = result["ttft_p90_ratio_random_over_warmroute"]
    return (
        f"{table(heads, (_demo_row(policy, figures) for policy, figures in result['policies'].items()))}\n\n"
        f"{workload['conversations']} agent conversations on {workload['workers']} emulated engines at "
        f"{workload['speedup']:g} x the speed of a small pod, medians of {ratio['repeats']} seeds, wall-clock, on "
        f"{where['cores']} cores ({where['cpu']}). Nine of ten requests have their first token "
        f"{ratio['min']:.0f} to {ratio['max']:.0f} times sooner than under random routing. "
        "The raw figures are in [bench/results/demo.json](bench/results/demo.json)."
    )


def _demo_row(policy: str, figures: Result) -> list[str]:
    times = [f"{1000 * figures[name]['median']:,.0f} ms" for name in ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s")]
    share = f"{figures['cached_token_share']['median']:.0%}"
    return [f"`{policy}`", *times, share, f"{figures['requests_per_s']['median']:.1f}"]


def lookups(result: Result) -> str:
    """What a lookup costs callers of either, in both fleets, by who holds the prompt."""
    heads = ("prompt", "held by", "p50", "p99", "max", "of it hashing, p50", "Dynamo p50", "Dynamo p99")
    rows = [row for name in ("small", "large") for row in _lookup_rows(result[name])]
    return f"{table(heads, rows)}\n\nMicroseconds, on {machine(result)}."


def _lookup_rows(part: Result) -> Iterable[list[str]]:
    found = part["lookup"]
    for kind, held_by in (("shared", f"all {part['workers']}"), ("disjoint", f"one of {part['workers']}")):
        ours, theirs = found["us"][kind], (found["dynamo_us"] or {}).get(kind)
        figures = [us(ours[name]) for name in ("median", "p99", "max")]
        beside = [us(theirs[name]) if theirs else "-" for name in ("median", "p99")]
        yield [f"{part['prompt_blocks']:,} blocks", held_by, *figures, us(found["hashing_us"]["median"]), *beside]


def floor(result: Result) -> str:
    """The first fleet's lookups beside what a lookup costs where there is nothing to find."""
    ours, one_core = result["small"], result["small"]["one_core"]
    mixed, empty = ours["lookup"]["us"]["mixed"]["median"], ours["floor"]["us"]["median"]
    rows = [("warmroute, hashing included", us(mixed), us(empty), us(mixed - empty))]
    if one_core is not None:
        cases = (
            ("Dynamo, without its hashing", ours["lookup"]["dynamo_us"], ours["floor"]["dynamo_us"]),
            ("the same on one core", one_core["dynamo_us"], one_core["dynamo_floor_us"]),
        )
        for name, found, nothing in cases:
            whole, least = found["mixed"]["median"], nothing["median"]
            rows.append((name, us(whole), us(least), us(whole - least)))
    told = table(("p50 in microseconds", "lookup", "floor", "without it"), rows)
    if one_core is None:
        return told
    return (
        f"{told}\n\nA caller of Dynamo's tree pays {result['lookup_ratio_dynamo_over_warmroute']:.1f} times what a "
        f"caller of ours does, and {result['lookup_ratio_net_of_floors']:.2f} times without both floors. "
        f"To hash the prompt, which is not in its figures, takes Dynamo "
        f"{us(ours['lookup']['dynamo_hashing_us']['median'])} us."
    )


def stores(result: Result) -> str:
    """Blocks per second by the size of the event."""
    heads = ("blocks of an event", "from buffers", "from lists", "Dynamo, from JSON")
    names = ("blocks_per_s", "blocks_per_s_lists", "dynamo_blocks_per_s")
    rows = (
        [f"{row['event_blocks']:,}", *(millions(row[name]["median"]) if name in row else "-" for name in names)]
        for row in result["small"]["store"]
    )
    return f"{table(heads, rows)}\n\nBlocks per second on one thread, medians of {result['repeats']['stores']} runs."


def memory(result: Result) -> str:
    """Bytes of a block, and what is left after everything has been removed."""
    heads = ("removed by", "bytes per block", "MiB at the start", "full", "at the end", "end over start", "blocks left")
    rows = (
        [
            way,
            f"{found['bytes_per_block']:.1f}",
            *(f"{found[name] / 2**20:,.1f}" for name in ("rss_start", "rss_full", "rss_end")),
            f"{found['rss_end'] / found['rss_start']:.2f}",
            f"{found['nodes_end']:,}",
        ]
        for way, found in (("events", result["memory"]["by_events"]), ("forgetting", result["memory"]["by_forget"]))
    )
    return f"{table(heads, rows)}\n\n{result['memory']['by_events']['pairs']:,} pairs of a block and its worker."


def by_workers(result: Result) -> str:
    rows = result["scaling"]["workers"]
    fleets = sorted({row["workers"] for row in rows})
    heads = (f"a prompt of {rows[0]['blocks']:,} blocks", *(f"{fleet:,} workers" for fleet in fleets))
    found = {(row["workers"], row["held_by"]): us(row["us"]) for row in rows}
    lines = [("held by one", [found[fleet, 1] for fleet in fleets]), ("by 8", [found[fleet, 8] for fleet in fleets])]
    lines.append(("by all", [found[fleet, fleet] for fleet in fleets]))
    return f"{table(heads, [[name, *cells] for name, cells in lines])}\n\nMicroseconds, hashing included, p50."


def by_prompt(result: Result) -> str:
    rows = result["scaling"]["prompt_tokens"]
    lengths = sorted({row["tokens"] for row in rows})
    holders = sorted({row["held_by"] for row in rows})
    heads = ["tokens", *(f"{what}, held by {n}" for n in holders for what in ("hashing and match", "match alone"))]
    found = {(row["tokens"], row["held_by"]): row for row in rows}
    names = ("us_hashing_included", "us_match")
    lines = [[f"{length:,}", *(us(found[length, n][name]) for n in holders for name in names)] for length in lengths]
    return f"{table(heads, lines)}\n\nMicroseconds, p50, beside 8 workers that hold others too."


def ingest(result: Result) -> str:
    """Both rates, and what the loop noticed."""
    rates, stall = result["spread"], result["spread"]["loop_stall_ms_max"]
    rows = []
    for label, name in (("warmroute", "warmroute"), ("`dynamo.indexer`", "dynamo")):
        rate, cpu = rates[f"{name}_blocks_per_s"], result[f"{name}_cpu_us_per_block"]
        cells = [millions(rate[each]) if rate else "-" for each in ("min", "median", "max")]
        rows.append([label, *cells, f"{cpu:.2f} us" if cpu else "-"])
    ratio = result["ingest_ratio_warmroute_over_dynamo"]
    of_medians = f", ratio of the medians {ratio:.2f}" if ratio else ""
    return (
        f"{table(('blocks per second', 'least', 'median', 'most', 'CPU per block'), rows)}\n\n"
        f"{result['publishers']} publishers, {result['frames']:,} frames of {result['frame_blocks']} blocks, "
        f"{result['repeats']} runs of each{of_medians}. The router's loop was held up for {stall['median']:.1f} ms at "
        f"the longest in the median run and {stall['max']:.1f} ms in the worst; with nothing coming in, for "
        f"{result['loop_stall_ms_idle_max']:.1f} ms. Measured on {machine(result)}."
    )


def rounds(result: Result) -> str:
    """What a further round costs, beside a whole encode of the same text."""
    heads = ("", "p50", "p99", "encoding alone, p50", "bytes found", "ms at the longest", "whole encode, ms", "tokens")
    rows = []
    for case, found in result["conversations"].items():
        ratio, longest = found["over_full_ratio"], found["longest"]
        figures = [f"{each:.1%}" for each in (ratio["median"], ratio["p99"], found["encode_over_full_ratio"]["median"])]
        times = [f"{longest[name]:.1f}" for name in ("ms", "full_ms")]
        rows.append([case, *figures, f"{found['found_bytes_share']:.1%}", *times, f"{longest['tokens']:,}"])
    return (
        f"{table(heads, rows)}\n\nShares of the time of a whole encode by `tokenizers`, `{result['tokenizer']}`, "
        f"{result['repeats']['conversations']} conversations of each kind. Measured on {machine(result)}."
    )


def token_stalls(result: Result) -> str:
    """How long the loop was held up while a long body was read, by kind, with two cores and with one."""
    heads = ("a body of 400 kB", "p50", "p99", "max", "on one core, p99", "max", "request, p50")
    rows = []
    for kind, found in result["stall"].items():
        both = [(part if kind == "idle" else part["stall_ms"]) for part in (found, result["stall_one_core"][kind])]
        figures = [f"{both[0][name]:.1f}" for name in ("median", "p99", "max")]
        figures += [f"{both[1][name]:.1f}" for name in ("p99", "max")]
        took = "-" if kind == "idle" else f"{found['request_ms']['median']:.0f}"
        rows.append(["none" if kind == "idle" else kind, *figures, took])
    bodies = result["repeats"]["bodies"]
    return f"{table(heads, rows)}\n\nMilliseconds, of each body's longest stall; {bodies} bodies of each kind."


def cold(result: Result) -> str:
    """Encoders beside each other, and whether they can be trusted."""
    kinds, loaded = result["cold"]["kinds"], result["cold"]["loaded"]
    heads = ["", *(f"{kind}: over `tokenizers`" for kind in kinds), "MB/s, one core", "two", "others wait, ms"]
    heads += ["other ids", "of texts", "MiB read in"]
    rows = []
    for name, told in loaded.items():
        first = next(iter(kinds.values()))[name]
        compared = [found[name] for found in result["equality"].values() if name in found]
        texts, different = (sum(each.get(what, 0) for each in compared) for what in ("texts", "different"))
        ratios = [f"{found[name]['over_tokenizers_ratio']['median']:.2f}" for found in kinds.values()]
        two = first["mb_per_s_two_cores"]
        rates = [f"{first['mb_per_s_one_core']:.1f}", f"{two:.1f}" if two else "-", f"{first['held_ms']:.1f}"]
        judged = [f"{different:,}", f"{texts:,}"] if compared else ["-", "-"]
        rows.append([f"{name} {told['version']}", *ratios, *rates, *judged, f"{told['resident_bytes'] / 2**20:.0f}"])
    return (
        f"{table(heads, rows)}\n\n{result['repeats']['cold']} texts of 400 kB of each kind by `{result['tokenizer']}`, "
        f"ids compared over {len(result['equality'])} tokenizers."
    )


def segments(result: Result) -> str:
    """What a cached token weighs, by the cache's own account and by the resident set."""
    found = result["memory"]
    heads = ("bound, MiB", "tokens kept", "bytes per token", "resident bytes per token", "MiB after twice as many")
    cells = (found["bytes_per_token"], found["resident_bytes_per_token"], found["bytes_after_twice"] / 2**20)
    row = [f"{found['bound_bytes'] / 2**20:.0f}", f"{found['tokens']:,}", *(f"{each:.1f}" for each in cells)]
    resident = found["resident_growth_bytes_after_twice"] / 2**20
    return (
        f"{table(heads, [row])}\n\nWhile as much again went through the full cache the process grew by "
        f"{resident:.1f} MiB; the bound is of the cache's own account."
    )


Part = tuple[str, str, Callable[[Result], str]]

DOCUMENTS: dict[str, tuple[Part, ...]] = {
    "README.md": (("demo", "demo.json", demo),),
    "docs/performance.md": (
        ("lookups", "prefix_index.json", lookups),
        ("floor", "prefix_index.json", floor),
        ("stores", "prefix_index.json", stores),
        ("memory", "prefix_index.json", memory),
        ("by-workers", "prefix_index.json", by_workers),
        ("by-prompt", "prefix_index.json", by_prompt),
        ("decisions", "decision.json", decision_tables.decisions),
        ("decisions-by-holders", "decision.json", decision_tables.by_holders),
        ("decisions-parts", "decision.json", decision_tables.parts),
        ("ingest", "kv_ingest.json", ingest),
        ("rounds", "tokenize.json", rounds),
        ("token-stalls", "tokenize.json", token_stalls),
        ("cold", "tokenize.json", cold),
        ("segments", "tokenize.json", segments),
        ("relay-ratios", "relay.json", relay_tables.ratios),
        ("relay-cost", "relay.json", relay_tables.cost),
        ("relay-speed", "relay.json", relay_tables.speed),
        ("relay-grid", "relay.json", relay_tables.grid),
        ("relay-at-work", "relay.json", relay_tables.at_work),
        ("relay-streams", "relay.json", relay_tables.streams),
        ("relay-decisions", "relay.json", relay_tables.decisions),
    ),
    "docs/simulator.md": (
        ("simulation-summary", "simulation_reference.json", simulation_tables.summary),
        ("simulation-stages", "simulation_reference.json", simulation_tables.stages),
        ("trust", "simulator_trust.json", trust_tables.trust),
    ),
    "docs/doctor.md": (
        ("doctor-kinds", "doctor.json", doctor_tables.kinds),
        ("doctor-fixes", "doctor.json", doctor_tables.fixes),
        ("doctor-scale", "doctor.json", doctor_tables.scale),
    ),
    "docs/matrix.md": (("matrix", "matrix.json", matrix_tables.matrix),),
}

PLOTS = {"lookup_scaling.svg": ("prefix_index.json", "scaling")}
"""Each plot, with the result and the part of it that it shows."""


def load(result: str) -> Result:
    loaded: Result = json.loads((RESULTS / result).read_text())
    return loaded


def rendered(document: str, text: str) -> str:
    """The text of a document with the figures of the results."""
    for marker, result, render in DOCUMENTS[document]:
        block = f"<!-- {marker}:begin -->\n{render(load(result))}\n<!-- {marker}:end -->"
        pattern = f"<!-- {marker}:begin -->.*?<!-- {marker}:end -->"
        text, count = re.subn(pattern, lambda _: block, text, flags=re.DOTALL)  # noqa: B023
        assert count == 1, f"{document} must have one pair of markers {marker}"
    return text


def drawn_from(plot: str) -> str:
    """What a plot of the results says that it was drawn from."""
    result, part = PLOTS[plot]
    return f"{result} {part} {hashlib.sha256(json.dumps(load(result)[part]).encode()).hexdigest()[:16]}"


def stale() -> list[str]:
    """Documents and plots that do not show the results."""
    documents = [name for name in DOCUMENTS if rendered(name, (ROOT / name).read_text()) != (ROOT / name).read_text()]
    plots = [name for name in PLOTS if drawn_from(name) not in (IMAGES / name).read_text()]
    return documents + plots


def main() -> int:
    """Render, or compare and say what to do."""
    if "--check" in sys.argv[1:]:
        found = stale()
        if found:
            print(f"{', '.join(found)}: not what bench/results has; run: make bench-docs", file=sys.stderr)
        return int(bool(found))
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(rendered(name, path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
