"""The tables of bench/doctor.py's result."""

from tools.tables import Result, machine, table

_MIB = 2**20


def kinds(result: Result) -> str:
    """Precision and recall of each kind, and of all."""
    heads = ("kind", "labels", "found", "wrong findings", "precision", "recall")
    rows = [[f"`{kind}`", *_row(counts)] for kind, counts in result["kinds"].items()]
    rows += [[f"`{kind}`", "-", "-", f"{wrong}", "-", "-"] for kind, wrong in result["others"].items() if wrong]
    rows.append(["**all**", *_row(result["overall"])])
    corpus, seeds = result["corpus"], ", ".join(map(str, result["seeds"]))
    return (
        f"{table(heads, rows)}\n\n{corpus['families']:,} families with {corpus['requests']:,} requests in "
        f"{len(corpus['languages'])} languages, {corpus['families_per_seed']} for each of the seeds {seeds}. "
        f"{corpus['clean_families']:,} of them, with {corpus['clean_requests']:,} requests, have nothing wrong, "
        f"{corpus['near_misses']} of these look as if they had; on them there are {result['findings_on_clean']} "
        f"findings. Of a seed, precision is {_spread(result['precision'])} and recall {_spread(result['recall'])}."
    )


def _row(counts: Result) -> list[str]:
    ratios = ("-" if counts[name] is None else f"{counts[name]:.3f}" for name in ("precision", "recall"))
    return [*(f"{counts[name]:,}" for name in ("labels", "found", "wrong")), *ratios]


def _spread(found: Result) -> str:
    return f"{found['min']:.3f} to {found['max']:.3f}"


def fixes(result: Result) -> str:
    """Whether the fixes keep their word."""
    kept = result["fixes"]
    heads = ("share of cached tokens", "least", "median", "most")
    names = {"cached_share_before": "as it was sent", "cached_share_after": "with the fix"}
    rows = [[label, *(f"{kept[name][which]:.1%}" for which in _WHICH)] for name, label in names.items()]
    ratio = kept["reached_over_promised"]
    rows.append(["reached, of what was promised", *(f"{ratio[which]:.1%}" for which in _WHICH)])
    return (
        f"{table(heads, rows)}\n\n{kept['kept']:,} of {kept['fixes']:,} fixes reach at least "
        f"{kept['kept_from']:.0%} of the share that was promised, as the simulator counts it."
    )


_WHICH = ("min", "median", "max")


def scale(result: Result) -> str:
    """What it took to read a long log."""
    found = result["scale"]
    heads = ("requests", "tokens each", "requests/s", "MB/s", "seconds", "memory allowed, MiB", "most in use, MiB")
    row = [
        f"{found['requests']:,}",
        f"{found['mean_tokens']:,.0f}",
        f"{found['requests_per_s']:,.0f}",
        f"{found['requests_per_s'] * found['mean_line_bytes'] / 1e6:,.0f}",
        f"{found['wall_s']:,.0f}",
        f"{found['memory_bytes'] / _MIB:,.0f}",
        f"{found['peak_rss_bytes'] / _MIB:,.0f}",
    ]
    return (
        f"{table(heads, [row])}\n\nOne pass over a pipe by one process; without a log it has "
        f"{found['idle_rss_bytes'] / _MIB:,.0f} MiB. {found['findings']} findings in {found['families']} families; "
        f"{_forgotten(found['dropped'])}. Measured on {machine(result)}."
    )


def _forgotten(dropped: dict[str, int]) -> str:
    """What the memory did not hold, in the doctor's own words."""
    told = "; ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    return f"dropped, as the report tells it: {told}" if told else "nothing had to be forgotten"
