"""The demo's result for people: a table, what it was measured on, and one sentence that says what it means."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from warmroute.demo.options import SPEEDUP
from warmroute.demo.statistics import RunReport, ttft_ratio
from warmroute.demo.workload import CachePlan, Workload


def result_table(reports: Sequence[RunReport]) -> Table:
    """One row for each policy; 80 columns hold it."""
    title = f"Time to first token as clients see it; engines at {SPEEDUP:g} x speed, wall-clock"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("\npolicy", no_wrap=True)
    headings = ("p50\nms", "p90\nms", "p99\nms", "cached\ntokens", "\nreq/s", "max/mean\nload", "\nfailed")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(
            report.policy,
            _milliseconds(report.ttft_p50_s),
            _milliseconds(report.ttft_p90_s),
            _milliseconds(report.ttft_p99_s),
            f"{report.cached_token_share:.1%}",
            f"{report.requests_per_s:.1f}",
            f"{report.load_max_over_mean:.2f}",
            str(report.failed),
        )
    return table


def setting(workload: Workload, plan: CachePlan) -> str:
    """What the figures were measured on."""
    return (
        f"{plan.workers} emulated engines, {SPEEDUP:g} x faster than the pod they model (8B model, one 24 GB card: "
        f"{plan.engine.prefill_tokens_per_s:,.0f} prompt tokens/s). {len(workload.agents)} agents, "
        f"{len(workload.conversations)} conversations, {workload.requests} requests, the same for each policy. "
        f"All prefixes: {plan.prefix_tokens:,} tokens; one engine's cache holds {plan.engine_capacity_tokens:,}, "
        f"the fleet's {plan.fleet_capacity_tokens:,}."
    )


def meaning(reports: Sequence[RunReport]) -> str:
    """One sentence: what prefix-aware routing changed, or what is missing for the comparison."""
    by_policy = {report.policy: report for report in reports}
    blind, aware = by_policy.get("random"), by_policy.get("warmroute")
    ratio = ttft_ratio(reports, "random", "warmroute")
    if blind is None or aware is None or ratio is None:
        return "Show both random and warmroute to see what prefix-aware routing changes."
    change = f"{ratio:.0f} times shorter" if ratio >= 1 else f"{1 / ratio:.1f} times longer"
    return (
        f"Under the same load nine of ten requests get their first token within {_milliseconds(aware.ttft_p90_s)} ms "
        f"instead of {_milliseconds(blind.ttft_p90_s)} ms ({change}), because warmroute sends each to the engine that "
        f"already holds its prefix: {aware.cached_token_share:.0%} of all prompt tokens are not computed again, "
        f"against {blind.cached_token_share:.0%} under random routing."
    )


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.0f}"
