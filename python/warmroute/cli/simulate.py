"""`warmroute simulate`: what each policy would make of a workload on a modelled fleet, in virtual time."""

import argparse

from rich.console import Console

from warmroute.cli.simulate_list import as_json, print_list
from warmroute.cli.simulate_options import SimulateOptions
from warmroute.cli.simulate_progress import shown
from warmroute.cli.simulate_table import print_result
from warmroute.cli.simulation_output import (
    STDOUT,
    add_json_argument,
    check_writable,
    end_as_by_interrupt,
    tell_failed,
    write,
    write_json,
)
from warmroute.config import add_arguments as add_options
from warmroute.config import from_namespace
from warmroute.simulator.comparison import Values, compare, tasks
from warmroute.simulator.many import RunFailed
from warmroute.simulator.report import page

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
    add_json_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare, and show; 1 where a simulation failed."""
    # Not from the environment: WARMROUTE_POLICY and the like are meant for a real router.
    options = from_namespace(SimulateOptions, arguments)
    if arguments.list:
        return _list(arguments.json)
    check_writable(arguments.json, options.html)
    end_as_by_interrupt()
    try:
        result = _compared(options)
    except RunFailed as error:
        return tell_failed("simulate", error)
    _tell(result, arguments.json, options.html)
    return 0


def _compared(options: SimulateOptions) -> Values:
    question = options.question
    question.check()
    with shown(Console(stderr=True), [str(task) for task in tasks(question)]) as watcher:
        return compare(question, options.at_once, watcher)


def _tell(result: Values, json_path: str | None, html_path: str | None) -> None:
    if html_path is not None:
        write(html_path, page(result).encode())
    if json_path is not None:
        write_json(json_path, result)
    if json_path != STDOUT:
        print_result(result)


def _list(json_path: str | None) -> int:
    if json_path is None:
        print_list()
    else:
        write_json(json_path, as_json())
    return 0
