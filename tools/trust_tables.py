"""The table of `bench/simulator_trust.py`: what was simulated beside what was really sent."""

from collections.abc import Iterable

from tools.tables import Result, machine, table

_ROWS = (
    ("TTFT mean, s", "ttft_mean_s", "{:.3f}"),
    ("TTFT p50, s", "ttft_p50_s", "{:.3f}"),
    ("TTFT p90, s", "ttft_p90_s", "{:.3f}"),
    ("TTFT p99, s", "ttft_p99_s", "{:.3f}"),
    ("time per output token, s", "tpot_mean_s", "{:.4f}"),
    ("cached tokens", "cached_token_share", "{:.1%}"),
    ("cached as foreseen, to the token", "predicted_exact_share", "{:.1%}"),
    ("output tokens/s", "output_tokens_per_s", "{:.0f}"),
    ("most requests on a worker, over the mean", "load_ratio", "{:.2f}"),
)


def trust(result: Result) -> str:
    """Each figure of both sides with its spread, then how far the distributions of TTFT are apart."""
    heads = ["median (least to most)"]
    for policy in result["policies"]:
        heads += [f"`{policy}`, simulated", "sent", "gap"]
    work = result["workload"]
    return (
        f"{table(heads, _figures(result))}\n\n{table(_DISTANCE_HEADS, _distances(result))}\n\n"
        f"{work['requests']} requests with {work['prompt_tokens']:,} prompt tokens on {work['workers']} engines, "
        f"simulated {result['simulations']} times and sent {result['repeats']} times to processes over HTTP and "
        f"ZeroMQ, with equal work and moments that differ by up to {1000 * work['spread_s']:.0f} ms. "
        "Kolmogorov-Smirnov distances between the times to first token of two runs, medians over all pairs; the shift "
        "is by how much later the median request got its first token when it was sent. "
        f"Measured on {machine(result)}."
    )


def _figures(result: Result) -> Iterable[list[str]]:
    for label, name, form in _ROWS:
        row = [label]
        for told in result["policies"].values():
            figure = told["figures"][name]
            row += [_spread(figure[side], form) for side in ("simulated", "sent")]
            row.append("-" if figure["gap"] is None else f"{figure['gap']:+.1%}")
        yield row


def _spread(found: Result, form: str) -> str:
    least, middle, most = (form.format(found[name]) for name in ("min", "median", "max"))
    return middle if least == most else f"{middle} ({least} to {most})"


_DISTANCE_HEADS = (
    "distance between",
    "simulated and sent",
    "the same without the shift",
    "shift",
    "two simulated",
    "two sent",
    "chance, 5 %",
)


def _distances(result: Result) -> Iterable[list[str]]:
    for policy, told in result["policies"].items():
        found = told["ks"]
        names = ("between", "between_less_shift", "among_simulated", "among_sent")
        both, shifted, simulated, sent = (f"{found[name]['median']:.3f}" if found[name] else "-" for name in names)
        later = f"{1000 * found['sent_later_s']['median']:+.1f} ms"
        yield [f"`{policy}`", both, shifted, later, simulated, sent, f"{found['critical_5_percent']:.3f}"]
