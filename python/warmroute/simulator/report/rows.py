"""The summary of a comparison as rows and columns, for a terminal and for a page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmroute.simulator.comparison import Values


@dataclass(frozen=True, slots=True)
class Row:
    """One policy at one value of its main setting."""

    label: str
    policy: str
    summary: Mapping[str, Any]
    distance: Mapping[str, Any]
    runs: Sequence[Mapping[str, Any]]
    is_tuned: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One figure. unit: what its text is in, "" for a bare number. better: 1 where more is, -1 where less is."""

    heading: str
    unit: str
    about: str
    value: Callable[[Row], float | None]
    text: Callable[[float | None], str]
    better: int


def seconds(value: float | None) -> str:
    """Seconds to three significant digits, whole from a hundred on."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 1 else multiple(value)


def whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def multiple(value: float | None) -> str:
    """Three significant digits, more from a thousand on."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value >= 0.05 or value == 0 else f"{value:.2g}"


def count(value: float | None) -> str:
    """A number of things, which as a mean over seeds may be broken."""
    return "-" if value is None else f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def waiting(summary: Mapping[str, Any]) -> float | None:
    """Requests that wait per engine, and in the router."""
    queue, held = summary["queue_mean"], summary["held_mean"]
    return None if queue is None or held is None else float(queue + held)


def _waiting(row: Row) -> float | None:
    return waiting(row.summary)


def _of(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.summary[name]


def _distance(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.distance[name]


COLUMNS: Sequence[Column] = (
    Column("TTFT mean", "s", "time to the first token", _of("ttft_mean_s"), seconds, -1),
    Column("p90", "s", "nine of ten first tokens come within", _of("ttft_p90_s"), seconds, -1),
    Column("p99", "s", "99 of 100 first tokens come within", _of("ttft_p99_s"), seconds, -1),
    Column("p90 x bound", "", "p90 over that of the bound", _distance("ttft_p90_ratio"), multiple, -1),
    Column("cached", "", "prompt tokens that no engine had to compute", _of("cached_token_share"), percent, 1),
    Column("of bound", "", "cached, of all that can be", _distance("cached_share_of_bound"), percent, 1),
    Column("output", "tok/s", "tokens of answers, mean of the stages", _of("output_tokens_per_s"), whole, 1),
    Column("waiting", "", "requests waiting per engine and in the router", _waiting, decimal, -1),
    Column("failed", "", "requests without a whole answer", _of("failed"), count, -1),
)  # fmt: skip


def rows(result: Values) -> list[Row]:
    """The policies of a comparison, the shortest mean time to the first token first; tuned ones beside them.

    A tuned one is left out where the best value is the default.
    """
    found: list[Row] = []
    for name, policy in result["policies"].items():
        found.append(Row(name, name, policy["summary"], policy["distance"], policy["runs"]))
        tuned, knob = policy["tuned"], policy["knob"]
        if tuned is not None and tuned["knob"]["value"] != knob["value"]:
            label = f"{name} ({knob['name']} {tuned['knob']['value']:g})"
            found.append(Row(label, name, tuned["summary"], tuned["distance"], tuned["runs"], is_tuned=True))
    return sorted(found, key=lambda row: (row.summary["ttft_mean_s"] is None, row.summary["ttft_mean_s"] or 0.0))


def best(column: Column, among: Sequence[Row]) -> list[int]:
    """The positions of the rows whose text in this column is the best one; none where all are alike."""
    values = {at: value for at, row in enumerate(among) if (value := column.value(row)) is not None}
    if not values:
        return []
    top = column.text(max(values.values(), key=lambda value: column.better * value))
    found = [at for at, value in values.items() if column.text(value) == top]
    return found if len(found) < len(among) else []
