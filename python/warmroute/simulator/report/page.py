"""The report: one HTML file that asks for nothing, so it can be mailed, kept and opened where there is no network."""

import dataclasses
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from warmroute.simulator.comparison import Values
from warmroute.simulator.report.plots import Plot, Table, load_plots, plots
from warmroute.simulator.report.rows import COLUMNS, best, count, decimal, percent, rows, seconds, waiting, whole
from warmroute.simulator.report.verdict import verdict

# More lines than that are too many to begin with; the others can be switched on.
_SHOWN_AT_FIRST = 6
# What could end a script element, or a string in it.
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page(result: Values) -> str:
    """The page of a comparison; equal comparisons give equal pages."""
    found = rows(result)
    drawn, loads = plots(result), load_plots(result)
    return _template().render(
        result=result,
        verdict=verdict(result),
        columns=COLUMNS,
        rows=found,
        marked=[best(column, found) for column in COLUMNS],
        shown=_shown_at_first(result),
        plots=drawn,
        loads=loads,
        stages=_stage_tables(result),
        tried=_tried(result),
        spreads=_spreads(result),
        bounds=_bounds(result),
        data=_script_data({"policies": list(result["policies"]), "plots": [_drawn(plot) for plot in [*drawn, *loads]]}),
        asset=_asset,
        licence=Markup(_asset("LICENSE-uPlot.txt").replace("--", "- -")),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(files(__package__).joinpath("assets", "report.html").read_text("utf-8"))


def _asset(name: str) -> Markup:
    """A file of ours that goes into the page as it is."""
    return Markup(files(__package__).joinpath("assets", name).read_text("utf-8").strip())


def _script_data(value: Any) -> Markup:
    text = msgspec.json.encode(value).decode()
    for character, escaped in _UNSAFE.items():
        text = text.replace(character, escaped)
    return Markup(text)


def _drawn(plot: Plot) -> Values:
    """What draws a plot; its table is in the page."""
    told = {field.name: getattr(plot, field.name) for field in dataclasses.fields(plot) if field.name != "table"}
    return told | {"lines": [_line(line.policy, line.label, line.x, line.y, line.dashed) for line in plot.lines]}


def _line(policy: int, label: str, x: Any, y: Any, dashed: bool) -> Values:
    return {"policy": policy, "label": label, "x": list(x), "y": list(y), "dashed": dashed}


def _shown_at_first(result: Values) -> list[bool]:
    """For each policy whether its lines are shown: the best ones, where there are many."""
    best_first = dict.fromkeys(row.policy for row in rows(result))
    chosen = list(best_first)[:_SHOWN_AT_FIRST]
    return [name in chosen for name in result["policies"]]


def _stage_tables(result: Values) -> list[Table]:
    """Figures of each counted stage, means over the seeds; none where there is one stage only."""
    policies = result["policies"]
    counted = [stage for stage in next(iter(policies.values()))["runs"][0]["stages"] if stage["counted"]]
    if len(counted) < 2:
        return []
    names = [stage["name"] for stage in counted]
    figures = (
        ("TTFT mean, s", lambda stage: stage["ttft_mean_s"], seconds),
        ("TTFT p90, s", lambda stage: stage["ttft_p90_s"], seconds),
        ("Output, tokens/s", lambda stage: stage["output_tokens_per_s"], whole),
        ("Prompt tokens found in caches", lambda stage: stage["cached_token_share"], percent),
        ("Requests waiting per engine and in the router", waiting, decimal),
        ("KV memory in use", lambda stage: stage["kv_usage_mean"], percent),
        ("Failed", lambda stage: stage["failed"], count),
    )
    return [
        Table(
            caption, names, [(name, _of_stages(policy, len(names), value, text)) for name, policy in policies.items()]
        )
        for caption, value, text in figures
    ]


def _of_stages(policy: Values, count: int, value: Any, text: Any) -> list[str]:
    by_run = [[value(stage) for stage in run["stages"] if stage["counted"]] for run in policy["runs"]]
    told = []
    for at in range(count):
        there = [values[at] for values in by_run if values[at] is not None]
        told.append(text(sum(there) / len(there) if there else None))
    return told


def _spreads(result: Values) -> Table | None:
    """The least and the greatest of the seeds; None of one seed."""
    if len(result["seeds"]) < 2:
        return None
    figures = (
        ("TTFT mean, s", "ttft_mean_s", seconds),
        ("TTFT p90, s", "ttft_p90_s", seconds),
        ("TTFT p99, s", "ttft_p99_s", seconds),
        ("cached", "cached_token_share", percent),
        ("output, tokens/s", "output_tokens_per_s", whole),
    )
    told = []
    for name, policy in result["policies"].items():
        spread = policy["summary"]["spread"]
        told.append((name, [_from_to(spread[figure], text) for _, figure, text in figures]))
    return Table("Least and greatest of the seeds", [heading for heading, _, _ in figures], told)


def _from_to(spread: Any, text: Any) -> str:
    return "-" if spread is None else f"{text(spread[0])} to {text(spread[1])}"


def _tried(result: Values) -> list[Table]:
    """For each policy whose main setting was varied the mean time to the first token at each value."""
    return [
        Table(
            f"{name}: {policy['knob']['name']} (default {policy['knob']['value']:g})",
            [f"{tried['value']:g}" for tried in policy["tuned"]["tried"]],
            [("TTFT mean, s", [seconds(tried["ttft_mean_s"]) for tried in policy["tuned"]["tried"]])],
        )
        for name, policy in result["policies"].items()
        if policy["tuned"] is not None
    ]


def _bounds(result: Values) -> Table:
    bounds = result["bounds"]
    names = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s")
    told = [*(seconds(bounds[name]) for name in names), percent(bounds["cached_token_share"])]
    headings = ("TTFT mean, s", "p50, s", "p90, s", "p99, s", "cached")
    return Table("What no policy can do better", headings, [("bounds", told)])
