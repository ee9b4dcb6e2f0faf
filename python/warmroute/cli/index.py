"""`warmroute index`: look into what a router knows of the engines' caches, keep it, give it back, check it."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from warmroute.cli import index_table, router_page
from warmroute.cli.router_page import PageRefused, RouterUnreachable, told
from warmroute.errors import ConfigError
from warmroute.gateway.index_report import (
    CheckReport,
    IndexReport,
    LoadedLane,
    LoadReport,
    check_of_file,
    report_of_file,
)
from warmroute.gateway.state_file import LaneState, SavedState, UnusableState, decode, encode, read, write

_Report = TypeVar("_Report")

_PAGE = "/warmroute/index"

_EPILOG = """\
examples:
  warmroute index stats                                  what the router on this machine knows of each cache
  warmroute index stats --url http://10.0.0.2:8081       the same of another one
  warmroute index dump caches.index                      keep it in a file
  warmroute index check --file caches.index              is the file whole, does it make sense?
  warmroute index load caches.index --url http://10.0.0.3:8081
                                                         give it to another router of the same workers

The file is the one that 'warmroute serve --state-file' keeps by itself. Nothing in it is believed blindly: each lane is
verified against its engine's events, and forgotten where the engine has been restarted since. 'load' sends one lane
after the other, each no larger than the router's --max-body-bytes.

exit codes: 0 fine; 1 the index or the file is damaged, or nothing was taken; 2 wrong usage, no router
answers, or the index changes too fast to be examined.
"""

_SUMMARIES = {
    "stats": "show what is known of each lane: blocks, block sizes, whether it is complete",
    "dump": "write a running router's index to a file",
    "load": "give the lanes of a file to a running router, which takes those of its own workers",
    "check": "have a running router's index, or a file, examined for contradictions and damage",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, summary in _SUMMARIES.items():
        action = actions.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        where: argparse._ActionsContainer = action
        if name in ("stats", "check"):
            where = action.add_mutually_exclusive_group()
            where.add_argument("--file", type=Path, metavar="FILE", help="a state file, instead of a running router")
        else:
            action.add_argument("path", type=Path, metavar="FILE", help=_FILE_HELP[name])
        where.add_argument(
            "--url", default=router_page.DEFAULT_URL, help=f"the running router (default: {router_page.DEFAULT_URL})"
        )
        action.add_argument("--json", action="store_true", help="write one JSON object instead of a table")


_FILE_HELP = {
    "dump": "where to write; '-' is standard output, when it is redirected",
    "load": "a file that 'warmroute index dump' or a router has written",
}


def run(arguments: argparse.Namespace) -> int:
    """Do one action; the exit code says how the index is, not only whether it could be asked."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "stats": _stats,
        "dump": _dump,
        "load": _load,
        "check": _check,
    }
    try:
        return actions[arguments.action](arguments)
    except UnusableState as error:
        sys.stderr.write(f"warmroute index: {error}\n")
        return 1


def _stats(arguments: argparse.Namespace) -> int:
    if arguments.file is not None:
        report = report_of_file(_saved(arguments.file), str(arguments.file), time.time())
    else:
        report = told(router_page.get(arguments.url, _PAGE), IndexReport, arguments.url)
    _write(arguments, report, index_table.print_stats)
    return 0


def _dump(arguments: argparse.Namespace) -> int:
    to_output = str(arguments.path) == "-"
    if to_output and sys.stdout.isatty():
        raise ConfigError("a dump is no text for a terminal: name a file, or redirect: warmroute index dump - > FILE")
    data = router_page.get(arguments.url, _PAGE + "/dump")
    state = _decoded(data, arguments.url)
    if to_output:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return 0
    try:
        size = write(arguments.path, state)
    except UnusableState as error:
        raise ConfigError(f"{arguments.path}: {error}") from error
    if arguments.json:
        _write_json({"file": str(arguments.path), "bytes": size, "lanes": len(state.lanes)})
    else:
        sys.stdout.write(f"{arguments.path}: {len(state.lanes)} lanes, {size:,} bytes\n")
    return 0


def _load(arguments: argparse.Namespace) -> int:
    state = _saved(arguments.path)
    lanes = tuple(loaded for lane in state.lanes for loaded in _given(arguments.url, state, lane))
    report = LoadReport(lanes)
    _write(arguments, report, index_table.print_loaded)
    return 0 if any(lane.taken for lane in lanes) else 1


def _given(url: str, state: SavedState, lane: LaneState) -> tuple[LoadedLane, ...]:
    """Hand over one lane of `state`. One by one: a router bounds the size of a body, and a fleet's is larger."""
    body = b"".join(encode(SavedState(state.saved_at, state.router, (lane,))))
    try:
        return told(router_page.post(url, _PAGE + "/load", body), LoadReport, url).lanes
    except PageRefused as error:
        if error.status != 413:
            raise
        detail = f"its {len(body):,} bytes are more than the router takes: start it with a larger --max-body-bytes"
        return (LoadedLane(lane.worker, lane.rank, False, 0, detail),)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.file is not None:
        report = check_of_file(_saved(arguments.file))
    else:
        report = told(router_page.post(arguments.url, _PAGE + "/check"), CheckReport, arguments.url)
    _write(arguments, report, index_table.print_check)
    if report.undecided is not None:
        return 2
    return 1 if report.problems else 0


def _saved(path: Path) -> SavedState:
    try:
        state = read(path)
    except UnusableState as error:
        raise UnusableState(f"{path} cannot be used: {error}") from error
    if state is None:
        raise ConfigError(f"there is no file {path}; 'warmroute index dump {path}' writes one from a running router")
    return state


def _decoded(data: bytes, url: str) -> SavedState:
    try:
        return decode(data)
    except UnusableState as error:
        raise RouterUnreachable(f"what {url} sent is no dump: {error}") from error


def _write(arguments: argparse.Namespace, report: _Report, as_table: Callable[[_Report], None]) -> None:
    if arguments.json:
        _write_json(msgspec.to_builtins(report))
    else:
        as_table(report)


def _write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
