"""A replay for people: what repeats in the log, a table of fleets and policies, and the recommendation."""

import sys
from collections.abc import Iterator
from math import inf
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warmroute.simulator.comparison import Values
from warmroute.simulator.logs.advice import served_p90_s

# Where no terminal sets a limit, a row is one line.
_WIDTH_OF_A_FILE = 120
_BARS = " ▁▂▃▄▅▆▇█"
_HEADINGS = ("TTFT\np50", "\np90", "\np99", "cached\ntokens", "output\ntokens/s", "waiting\nper worker", "\nfailed")


def print_replay(result: Values) -> None:
    """To standard output."""
    output = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    for line in log_lines(result["log"]):
        output.print(line, markup=False)
    output.print()
    for line in reuse_lines(result["reuse"]):
        output.print(line, markup=False)
    output.print(table(result))
    output.print(result["recommendation"]["text"], markup=False)


def log_lines(log: Values) -> Iterator[str]:
    """What was read, and how far it can be trusted."""
    more = " (the log has more: --limit)" if log["has_more"] else ""
    requests = "1 request" if log["requests"] == 1 else f"{log['requests']:,} requests"
    yield f"{log['name']}, read as {log['format']}: {requests} over {_span(log['duration_s'])}{more}"
    if log["broken_lines"]:
        yield f"broken lines left out: {log['broken_lines']:,}"
    for reason, count in log["left_out"].items():
        yield f"requests left out: {count:,}, {reason}"
    if len(log["models"]) > 1:
        yield f"{len(log['models'])} models share the fleet here ({', '.join(log['models'][:5])}); --model takes one"
    yield from _guesses(log)
    if log["prompts_cut_at_tokens"]:
        yield (
            f"many prompts have exactly {log['prompts_cut_at_tokens']:,} tokens, the most of all: was vLLM started "
            "with --max-log-len? What lies behind is not in the log, so load and reuse are told too low"
        )
    if log["times_rounded_to_s"]:
        yield f"times are rounded to {log['times_rounded_to_s']:g} s; requests were spread evenly over that"
    if log["pauses_cut_s"]:
        yield f"long pauses were shortened by {_span(log['pauses_cut_s'])} in all"


def reuse_lines(reuse: Values) -> Iterator[str]:
    """What repeats, and what cache that takes."""
    capacity = reuse["cache_tokens_of_a_worker"]
    yield (
        f"{reuse['prompt_tokens']:,} prompt tokens, {reuse['answer_tokens']:,} answer tokens"
        + (f", {reuse['sessions']:,} sessions" if reuse["sessions"] else "")
        + f"; {reuse['reusable_share']:.1%} of the prompt tokens repeat a prefix that came before"
    )
    caches, workers = reuse["cache_tokens_for_share_of_reusable"], reuse["workers_for_share_of_reusable"]
    yield (
        f"one worker's cache ({reuse['engine']}, {capacity:,} tokens) could hold "
        f"{reuse['share_with_the_cache_of_one_worker']:.1%}; for 90 % of what repeats it takes "
        f"{caches['90%']:,} tokens of cache ({_workers(workers['90%'])})"
    )
    windows = reuse["windows"]
    sizes = [window["working_set_tokens"] for window in windows]
    if len(sizes) > 1 and max(sizes):
        bars = "".join(_BARS[round(size / max(sizes) * (len(_BARS) - 1))] for size in sizes)
        yield f"working set over time: {bars}, at most {max(sizes):,} different tokens in {_span(_width(windows))}"


def table(result: Values) -> Table:
    """A row for each size of fleet and policy."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.add_column("\nworkers", justify="right")
    drawn.add_column("\npolicy", no_wrap=True)
    for heading in _HEADINGS:
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_row("1", "(any)", *_cells(result["alone"]), end_section=True)
    for fleet in result["fleets"]:
        policies = list(fleet["policies"].items())
        soonest = min(served_p90_s(its["summary"]) for _, its in policies)
        for number, (policy, its) in enumerate(policies):
            best = served_p90_s(its["summary"]) == soonest < inf
            drawn.add_row(
                str(fleet["workers"]) if number == 0 else "",
                Text(policy),
                *_cells(its["summary"]),
                style="bold" if best else None,
                end_section=number == len(policies) - 1,
            )
    return drawn


def _cells(summary: Values) -> list[str]:
    times = [_seconds(summary[name]) for name in ("ttft_p50_s", "ttft_p90_s", "ttft_p99_s")]
    cached, rate, queue = summary["cached_token_share"], summary["output_tokens_per_s"], summary["queue_mean"]
    return [
        *times,
        "-" if cached is None else f"{cached:.1%}",
        "-" if rate is None else f"{rate:,.0f}",
        "-" if queue is None else f"{queue:.2f}",
        f"{summary['failed']:,.0f}",
    ]


def _guesses(log: Values) -> Iterator[str]:
    if log["tokens_estimated_share"]:
        yield (
            f"estimated: the tokens of {log['tokens_estimated_share']:.0%} of the prompts, from their bytes (4 a token "
            "unless --bytes-per-token says otherwise; --tokenizer counts them)"
        )
    if log["bytes_per_token_logged"]:
        yield f"by the log's own counts it is {log['bytes_per_token_logged']:.2f} bytes a token"
    limits, means = log["answers_by_limit_share"], log["answers_by_mean_share"]
    if limits or means:
        yield (
            f"guessed: the answers' lengths of {limits + means:.0%} of the requests ({limits:.0%} by max_tokens, which "
            f"is the most they can be, {means:.0%} by the mean)"
        )


def _seconds(seconds: Any) -> str:
    return "-" if seconds is None else f"{seconds:.3f} s" if seconds < 10 else f"{seconds:,.1f} s"


def _span(seconds: float) -> str:
    for unit, name in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} seconds"


def _width(windows: list[Values]) -> float:
    return float(windows[1]["start_s"] - windows[0]["start_s"])


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
