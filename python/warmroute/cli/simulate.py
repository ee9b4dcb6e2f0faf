"""`warmroute simulate`: what each policy would make of a workload on a modelled fleet, in virtual time."""

import argparse
import signal
import sys
import traceback
from pathlib import Path

import msgspec
from rich.console import Console

from warmroute.cli.simulate_list import as_json, print_list
from warmroute.cli.simulate_options import SimulateOptions, check_writable
from warmroute.cli.simulate_progress import shown
from warmroute.cli.simulate_table import print_result
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace
from warmroute.errors import ConfigError, WarmrouteError
from warmroute.simulator.comparison import Values, compare, tasks
from warmroute.simulator.many import RunFailed
from warmroute.simulator.report import page

_STDOUT = "-"
_EPILOG = """\
examples:
  warmroute simulate                                     a small fleet, conversations, three policies: some seconds
  warmroute simulate --list                              the workloads and policies, a line each
  warmroute simulate --workload reference --policy random --policy llm-d-precise --policy warmroute --json out.json
  warmroute simulate --workload claude-code --traces traces --policy all --seeds 3 --html report.html
  warmroute simulate --workload trace.jsonl --speed 2 --workers 6         your trace, twice as fast, on six workers
  warmroute simulate --policy warmroute --policy mine:Mine                a policy of your own, from ./mine.py
  warmroute simulate --policy dynamo --policy warmroute --tuned           each at the best value of its main setting

The policies decide in the router's own code, on engines that are modelled step by step; nothing is measured on this
machine, so its speed changes how long it takes and nothing else. The same command gives the same bytes.

A policy of your own is a class with `name`, `unit` and `costs(request, candidates, rng)`, made without arguments; see
warmroute.policy.protocol. A file has Mooncake's format, a JSON object a line: timestamp (ms), input_length,
output_length, hash_ids (of blocks of 512 tokens). `warmroute replay` takes logs of other kinds.

exit codes: 0 done; 1 a simulation failed; 2 wrong usage; 130 interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    add_options(parser, SimulateOptions)
    parser.add_argument("--list", action="store_true", help="list workloads and policies, and stop")
    parser.add_argument(
        "--json",
        nargs="?",
        const=_STDOUT,
        metavar="FILE",
        help="write everything as one JSON object, to standard output (and no table) without FILE or with -",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, and show; 1 where a simulation failed."""
    # Not from the environment: WARMROUTE_POLICY and the like are meant for a real router.
    options = from_namespace(SimulateOptions, arguments)
    if arguments.list:
        return _list(arguments.json)
    for path in (arguments.json, options.html):
        if path is not None and path != _STDOUT:
            check_writable(Path(path))
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # as Ctrl-C, so that processes are ended before this one
            signal.signal(number, signal.default_int_handler)
    try:
        result = _compared(options)
    except RunFailed as error:
        if not isinstance(error.__cause__, WarmrouteError):  # not foreseen, so whoever mends it wants to see where
            traceback.print_exception(error.__cause__)
        sys.stderr.write(f"warmroute simulate: {error}\n")
        return 1
    _tell(result, arguments.json, options.html)
    return 0


def _compared(options: SimulateOptions) -> Values:
    question = options.question
    question.check()
    with shown(Console(stderr=True), [str(task) for task in tasks(question)]) as watcher:
        return compare(question, options.at_once, watcher)


def _tell(result: Values, json_path: str | None, html_path: str | None) -> None:
    if html_path is not None:
        _write(html_path, page(result).encode())
    if json_path is not None:
        _write(json_path, _encoded(result))
    if json_path != _STDOUT:
        print_result(result)


def _list(json_path: str | None) -> int:
    if json_path is None:
        print_list()
    else:
        _write(json_path, _encoded(as_json()))
    return 0


def _encoded(value: Values) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _write(path: str, data: bytes) -> None:
    if path == _STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
