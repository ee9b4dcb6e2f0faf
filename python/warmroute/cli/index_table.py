"""The answers of `warmroute index` for people."""

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from warmroute.gateway.index_report import CheckReport, IndexReport, LaneReport, LoadReport

# Where no terminal sets a limit, each lane stays on one line.
_WIDTH_OF_A_FILE = 240
_COUNTS = ("device", "host", "disk", "remote", "predicted", "orphans")


def print_stats(report: IndexReport) -> None:
    """A row for each lane, without counts that are 0 on all; then the whole index and the router's state file."""
    counts = [name for name in _COUNTS if name == "device" or any(lane.blocks[name] for lane in report.lanes)]
    table = _table("lane", "rank", *(f">{name}" for name in ("of tokens", *counts, "complete", "last batch", "age")))
    for lane in report.lanes:
        table.add_row(*_cells(lane, counts))
    output = _console()
    if report.lanes:
        output.print(table)
    else:
        output.print(f"{report.source} knows of no lane")
    whole = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in sorted(report.counts.items()) if value)
    output.print(f"whole index: {whole or 'empty'}")
    if report.state_file is not None:
        output.print(_state_line(report.state_file))


def print_check(report: CheckReport) -> None:
    """The verdict, then what is wrong."""
    output = _console()
    verdict = "sound" if not report.problems else f"{len(report.problems)} problems"
    verdict = verdict if report.undecided is None else "undecided"
    output.print(f"{verdict}: {report.blocks:,} blocks in {report.lanes} lanes")
    if report.undecided is not None:
        output.print(f"  {report.undecided}")
    for problem in report.problems:
        output.print(f"  {problem}")


def print_loaded(report: LoadReport) -> None:
    """A row for each lane that was offered."""
    table = _table("lane", "rank", "taken", ">blocks", "what comes")
    for lane in report.lanes:
        taken = "yes" if lane.taken else "no"
        table.add_row(lane.worker, _or_dash(lane.rank), taken, f"{lane.blocks:,}", lane.detail)
    output = _console()
    if report.lanes:
        output.print(table)
    else:
        output.print("the file holds no lane")


def _cells(lane: LaneReport, counts: Sequence[str]) -> Sequence[str]:
    complete = {True: "yes", False: "no", None: "no events"}[lane.complete]
    age = "-" if lane.age_s is None else f"{lane.age_s:,.0f} s"
    sizes = ", ".join(map(str, sorted(lane.block_sizes))) or "-"
    blocks = (f"{lane.blocks[name]:,}" for name in counts)
    return lane.worker, _or_dash(lane.rank), sizes, *blocks, complete, _or_dash(lane.last_seq), age


def _state_line(state_file: dict[str, object]) -> str:
    if state_file["problem"] is not None:
        return f"state file {state_file['path']}: {state_file['problem']}"
    age = state_file["saved_s_ago"]
    written = (
        f"written {age:,.0f} s ago, {state_file['bytes']:,} bytes" if isinstance(age, float) else "not written yet"
    )
    return f"state file {state_file['path']}: {written}"


def _table(*headings: str) -> Table:
    """Headings that begin with '>' stand over figures."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left", overflow="fold")
    return table


def _console() -> Console:
    # No markup: an IPv6 address in brackets would be taken for a style.
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    return Console(width=width, markup=False, highlight=False, emoji=False)


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)
