"""The plots of a comparison: which lines there are, and what they say for those who do not see them.

Lines are of the first seed alone: a mean over seeds would smooth away what happens in time.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from warmroute.simulator.comparison import Values
from warmroute.simulator.report.rows import decimal, percent, seconds, whole
from warmroute.simulator.series import SHARES

_FIFTHS = ("first fifth", "second", "third", "fourth", "last fifth")
_TOLD_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `policy` is the position of whose it is. dashed: it is the second of two alike."""

    policy: int
    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """What a plot says, in figures."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot. x, y: what the axes show. kind: how values are written, and for "share" that an axis ends at 1.

    names: what stands at 0, 1, ... of the x axis instead of numbers. most: where the y axis ends, by default where the
    lines do. marks: for each policy the seconds at which its stages begin.
    """

    key: str
    title: str
    about: str
    x: str
    y: str
    kind: str
    lines: Sequence[Line]
    table: Table
    logarithmic: bool = False
    names: Sequence[str] = ()
    most: float | None = None
    marks: Sequence[Sequence[float]] = ()
    policy: int | None = None


def plots(result: Values) -> list[Plot]:
    """The plots with all policies in each, in the order of the page."""
    first = {name: policy["runs"][0] for name, policy in result["policies"].items()}
    by_stage = [_ttft_by_stage(first), _output_by_stage(first)] if _stages(first) > 1 else []
    return [_distribution(first), *by_stage, _ttft_over_time(first), _cached_over_time(first), _queue(first)]


def load_plots(result: Values) -> list[Plot]:
    """A plot for each policy with a line for each worker, all to one scale."""
    loads = {name: policy["runs"][0]["series"]["load"] for name, policy in result["policies"].items()}
    most = max((value for load in loads.values() for line in load["workers"] for value in _there(line)), default=1.0)
    return [_load(position, name, load, most) for position, (name, load) in enumerate(loads.items())]


def _distribution(first: Mapping[str, Any]) -> Plot:
    lines = [Line(at, name, SHARES, run["series"]["ttft_s"]) for at, (name, run) in enumerate(first.items())]
    told = [SHARES.index(share) for share in _TOLD_SHARES]
    table = Table(
        "Seconds to the first token within which so many of the requests have it",
        [f"{share:.0%}" for share in _TOLD_SHARES],
        [(line.label, [seconds(line.y[at]) for at in told]) for line in lines],
    )
    about = "How many of the requests have their first token within how many seconds. Lower is better."
    return Plot(
        "ttft", "Time to the first token", about, "share of requests", "seconds", "seconds", lines, table,
        logarithmic=True,
    )  # fmt: skip


def _ttft_by_stage(first: Mapping[str, Any]) -> Plot:
    about = "Nine of ten first tokens of a stage come within so many seconds. Lower is better."
    return _by_stage(first, "ttft_p90_s", "Time to the first token by stage", about, "seconds", seconds, True)


def _output_by_stage(first: Mapping[str, Any]) -> Plot:
    about = "Tokens of answers per second, from a stage's first request to its last token. Higher is better."
    return _by_stage(first, "output_tokens_per_s", "Output by stage", about, "tokens/s", whole, False)


def _by_stage(
    first: Mapping[str, Any],
    figure: str,
    title: str,
    about: str,
    unit: str,
    text: Callable[[float | None], str],
    logarithmic: bool,
) -> Plot:
    names = next([stage["name"] for stage in run["stages"] if stage["counted"]] for run in first.values())
    lines = [
        Line(at, name, range(len(names)), [stage[figure] for stage in run["stages"] if stage["counted"]])
        for at, (name, run) in enumerate(first.items())
    ]
    table = Table(title, names, [(line.label, [text(value) for value in line.y]) for line in lines])
    kind = "seconds" if unit == "seconds" else "number"
    return Plot(figure, title, about, "stage", unit, kind, lines, table, logarithmic=logarithmic, names=names)


def _ttft_over_time(first: Mapping[str, Any]) -> Plot:
    lines = [
        *_over_time(first, "over_time", "ttft_p90_s", "nine of ten"),
        *_over_time(first, "over_time", "ttft_p50_s", "half", dashed=True),
    ]
    about = "Of the requests that came around a moment nine of ten, and half (dashed), had their first token within."
    return Plot(
        "ttft-time", "Time to the first token over time", about, "seconds since the beginning", "seconds", "seconds",
        lines, _fifths(lines, seconds), logarithmic=True, marks=_marks(first),
    )  # fmt: skip


def _cached_over_time(first: Mapping[str, Any]) -> Plot:
    lines = _over_time(first, "over_time", "cached_token_share", "")
    about = "Of the prompt tokens of requests that came around a moment those that no engine had to compute."
    return Plot(
        "cached-time", "Prompt tokens found in caches", about, "seconds since the beginning", "share", "share",
        lines, _fifths(lines, percent), most=1.0, marks=_marks(first),
    )  # fmt: skip


def _queue(first: Mapping[str, Any]) -> Plot:
    lines = [
        *_over_time(first, "load", "waiting", "in engines"),
        *_over_time(first, "load", "held", "in the router", dashed=True),
    ]
    about = "Requests that wait: in all engines, and in the router (dashed)."
    return Plot(
        "queue", "Queue", about, "seconds since the beginning", "requests", "number",
        lines, _fifths(lines, decimal), marks=_marks(first),
    )  # fmt: skip


def _load(position: int, name: str, load: Mapping[str, Any], most: float) -> Plot:
    lines = [Line(position, f"worker {at}", load["at_s"], line) for at, line in enumerate(load["workers"])]
    means = [(fmean(_there(line.y)), max(_there(line.y))) for line in lines if _there(line.y)]
    figures = [
        (line.label, [decimal(mean), whole(top)])
        for line, (mean, top) in zip([line for line in lines if _there(line.y)], means, strict=True)
    ]
    table = Table(f"Requests running and waiting on each worker under {name}", ["mean", "most"], figures)
    return Plot(
        f"load-{position}", name, "", "seconds since the beginning", "requests", "number", lines, table,
        most=most, policy=position,
    )  # fmt: skip


def _over_time(first: Mapping[str, Any], part: str, line: str, which: str, *, dashed: bool = False) -> list[Line]:
    return [
        Line(at, f"{name}, {which}" if which else name, run["series"][part]["at_s"], run["series"][part][line], dashed)
        for at, (name, run) in enumerate(first.items())
    ]


def _fifths(lines: Sequence[Line], text: Callable[[float | None], str]) -> Table:
    """Means of each fifth of a line."""
    told: list[tuple[str, Sequence[str]]] = []
    for line in lines:
        edges = [len(line.y) * part // 5 for part in range(6)]
        parts = [_there(line.y[start:end]) for start, end in itertools.pairwise(edges)]
        told.append((line.label, [text(fmean(part) if part else None) for part in parts]))
    return Table("Means over each fifth of a policy's points, in time", _FIFTHS, told)


def _marks(first: Mapping[str, Any]) -> list[list[float]]:
    return [[stage["start_s"] for stage in run["series"]["stages"][1:]] for run in first.values()]


def _stages(first: Mapping[str, Any]) -> int:
    return max(sum(1 for stage in run["stages"] if stage["counted"]) for run in first.values())


def _there(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
