"""The tables of `warmroute simulate --workload reference`, beside what was published."""

import json
from pathlib import Path

from tools.tables import Result, table

_PUBLISHED = Path(__file__).parents[1] / "bench" / "published" / "reference_2026.json"


def summary(result: Result) -> str:
    """Each policy over the whole ladder, with the published figures where there are some, and the gaps."""
    published = json.loads(_PUBLISHED.read_text())["arms"]
    heads = (
        "policy",
        "output tokens/s",
        "published",
        "gap",
        "TTFT p90",
        "published",
        "TTFT mean",
        "published",
        "cached",
        "KV use",
        "failed",
    )
    return table(heads, (_summary_row(name, told["summary"], published) for name, told in result["policies"].items()))


def _summary_row(name: str, told: Result, published: Result) -> list[str]:
    known = published.get(name)
    rate = told["output_tokens_per_s"]
    cells = [f"`{name}`", f"{rate:,.0f}"]
    cells += (
        [f"{known['output_tokens_per_s']:,}", f"{rate / known['output_tokens_per_s'] - 1:+.0%}"]
        if known
        else ["-", "-"]
    )
    for figure in ("ttft_p90_s", "ttft_mean_s"):
        cells += [_seconds(told[figure]), _seconds(known[figure]) if known else "-"]
    return [*cells, f"{told['cached_token_share']:.1%}", f"{told['kv_usage_mean']:.0%}", f"{told['failed']:,.0f}"]


def stages(result: Result) -> str:
    """Output tokens per second and TTFT p90 at each rate, simulated and published."""
    published = json.loads(_PUBLISHED.read_text())
    names = [name for name in result["policies"] if name in published["arms"]]
    others = [name for name in result["policies"] if name not in published["arms"]]
    heads = ["requests/s", *(f"`{name}`, published" for name in names), *(f"`{name}`" for name in others)]
    rows = []
    for place, rate in enumerate(published["rates"]):
        row = [f"{rate}"]
        for name in names:
            told = _stage(result, name, rate)
            rates, times = published["output_tokens_per_s"][name][place], published["ttft_p90_s"][name][place]
            row.append(f"{_rate_and_time(told)}; {rates:,} / {_seconds(times)}")
        rows.append([*row, *(_rate_and_time(_stage(result, name, rate)) for name in others)])
    return f"{table(heads, rows)}\n\nOutput tokens per second / TTFT p90."


def _stage(result: Result, policy: str, rate: float) -> Result:
    """The stage of this rate, of the first seed; the warm-up is not one."""
    runs = result["policies"][policy]["runs"]
    found: Result = [stage for stage in runs[0]["stages"] if stage["rate"] == rate][-1]
    return found


def _rate_and_time(told: Result) -> str:
    return f"{told['output_tokens_per_s']:,.0f} / {_seconds(told['ttft_p90_s'])}"


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value >= 10 else f"{value:.3f} s"
