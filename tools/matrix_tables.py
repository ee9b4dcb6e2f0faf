"""The page of bench/matrix.py's result."""

from math import exp, log

from tools.tables import Result, machine, table

_OURS = "warmroute"


def matrix(result: Result) -> str:
    """Over all workloads first, then a table for each."""
    parts = [_overall(result), *(_workload(name, told) for name, told in result["workloads"].items())]
    seeds = ", ".join(map(str, result["seeds"]))
    earlier = f" {_anew(result)}" if "earlier" in result else ""
    return "\n\n".join([*parts, f"Seeds {seeds}. Simulated by {machine(result)}.{earlier}"])


def _anew(result: Result) -> str:
    names = ", ".join(f"`{name}`" for name in result["asked"])
    return f"That is true of {names}; the others' rows are of {result['earlier']['commit']}."


def _overall(result: Result) -> str:
    """Each policy's mean time to the first token over the best policy's of each workload, and where it is worst."""
    best = {name: min(_ttfts(told).values()) for name, told in result["workloads"].items()}
    rows = []
    for policy in result["policies"]:
        ratios = {
            name: _ttfts(told)[policy] / best[name]
            for name, told in result["workloads"].items()
            if policy in _ttfts(told)
        }
        if len(ratios) < len(best):
            continue
        worst = max(ratios, key=lambda name: ratios[name])
        failed = sum(told["policies"][policy]["failed"] for told in result["workloads"].values())
        mean = exp(sum(map(log, ratios.values())) / len(ratios))
        within = sum(ratio <= 1.05 for ratio in ratios.values())
        rows.append(
            (mean, [_shown(policy), f"{mean:.2f}", f"{within}", f"{ratios[worst]:.2f}", worst, f"{failed:.0f}"])
        )
    rows.sort(key=lambda row: row[0])
    heads = ("policy", "mean TTFT over the best", f"within 5 %, of {len(best)}", "worst", "on", "failed")
    return f"## Over all workloads\n\n{table(heads, [row for _, row in rows])}\n\n" + (
        "Mean TTFT over the best policy's on the same workload: the geometric mean over the workloads, and the worst "
        "one. Failed: requests, means over the seeds, summed."
    )


def _ttfts(told: Result) -> dict[str, float]:
    return {name: its["ttft_mean_s"] for name, its in told["policies"].items() if its["ttft_mean_s"]}


def _workload(name: str, told: Result) -> str:
    heads = ("policy", "TTFT mean, s", "p90, s", "p99, s", "output tokens/s", "cached", "most load", "failed")
    ordered = sorted(told["policies"].items(), key=lambda each: each[1]["ttft_mean_s"] or 0.0)
    bounds = told["bounds"]
    return (
        f"## {name}\n\n{told['about']}: {told['requests']:,.0f} requests on {told['workers']} workers. At the bounds: "
        f"{bounds['cached_token_share']:.1%} cached, TTFT mean {bounds['ttft_mean_s']:.3f} s, "
        f"p90 {bounds['ttft_p90_s']:.3f} s.\n\n{table(heads, [_row(*each) for each in ordered])}"
    )


def _row(name: str, told: Result) -> list[str]:
    away = told["distance"]
    times = [f"{told[f'ttft_{which}_s']:.3f} ({away[f'ttft_{which}_ratio']:.1f})" for which in ("mean", "p90", "p99")]
    share = away["cached_share_of_bound"]
    cached = f"{told['cached_token_share']:.1%}" + ("" if share is None else f" ({share:.0%})")
    rate = f"{told['output_tokens_per_s']:,.0f}"
    return [_shown(name), *times, rate, cached, f"{told['load_ratio']:.2f}", f"{told['failed']:.0f}"]


def _shown(policy: str) -> str:
    return f"**`{policy}`**" if policy == _OURS else f"`{policy}`"
