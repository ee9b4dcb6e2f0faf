"""A comparison for people: a table, what it was asked of, and a paragraph that says what it means."""

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from warmroute.simulator.comparison import Values
from warmroute.simulator.report import COLUMNS, Column, best, rows, verdict

# Where no terminal sets a limit, a row is one line.
_WIDTH_OF_A_FILE = 140
_MARK = "*"
_WITHOUT_BOUND = 10_000
# What a narrow terminal does without, the first ones first.
_SPARED = ("of bound", "p99", "p90 x bound", "waiting")


def print_result(result: Values) -> None:
    """To standard output."""
    output = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE, highlight=False)
    output.print(setting(result), markup=False)
    output.print(_fitting(output, result))
    output.print(bound_line(result), markup=False)
    output.print()
    output.print(verdict(result), markup=False)


def table(result: Values, columns: Sequence[Column] = COLUMNS) -> Table:
    """A row for each policy, the soonest first token first; the best of each column is marked."""
    found = rows(result)
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=f"{_MARK} best of its column", caption_justify="left")
    drawn.add_column("\npolicy", no_wrap=True)
    for column in columns:
        drawn.add_column(f"{column.heading}\n{column.unit}", justify="right", no_wrap=True)
    marked = [best(column, found) for column in columns]
    for at, row in enumerate(found):
        cells = [
            _cell(column.text(column.value(row)), is_best=at in places)
            for column, places in zip(columns, marked, strict=True)
        ]
        drawn.add_row(Text(row.label), *cells)
    return drawn


def setting(result: Values) -> str:
    """What was compared on what."""
    workload, seeds = result["workload"], result["seeds"]
    drawn = f"seed {seeds[0]}" if len(seeds) == 1 else f"means of seeds {seeds[0]} to {seeds[-1]}"
    speed = "" if result["speed"] == 1 else f", {result['speed']:g} times as fast"
    return (
        f"{workload['name']}: {workload['about']}\n{workload['requests']:,.0f} requests in {workload['sessions']:,.0f} "
        f"sessions, {workload['prompt_tokens']:,.0f} prompt tokens, {workload['answer_tokens']:,.0f} answer tokens, on "
        f"{result['workers']} workers{speed}; {drawn}"
    )


def bound_line(result: Values) -> str:
    """The bounds, in the table's terms."""
    bounds = result["bounds"]
    if bounds["ttft_mean_s"] is None:
        return "no requests, no bounds"
    return (
        f"bounds: TTFT mean {bounds['ttft_mean_s']:.3f} s, p90 {bounds['ttft_p90_s']:.3f} s, p99 "
        f"{bounds['ttft_p99_s']:.3f} s; cached {bounds['cached_token_share']:.1%}"
    )


def _fitting(output: Console, result: Values) -> Table:
    """The table, without as many of the less needed columns as it takes to fit."""
    columns, spared = list(COLUMNS), list(_SPARED)
    drawn = table(result, columns)
    unbounded = output.options.update_width(_WITHOUT_BOUND)
    while spared and Measurement.get(output, unbounded, drawn).maximum > output.width:
        heading = spared.pop(0)
        columns = [column for column in columns if column.heading != heading]
        drawn = table(result, columns)
    return drawn


def _cell(text: str, *, is_best: bool) -> Text:
    return Text(f"{text}{_MARK}", style="bold green") if is_best else Text(f"{text} ")
