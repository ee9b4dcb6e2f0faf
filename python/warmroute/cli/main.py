"""`warmroute COMMAND`: finds the command, runs it, turns errors into a line and an exit code.

Exit codes: 0 done, 1 the command ran and its result is bad, 2 wrong usage or configuration, 130 interrupted,
141 whoever read the output has gone.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from warmroute._native import __version__
from warmroute.errors import WarmrouteError

_COMMANDS = {
    "serve": "route requests to the workers that hold their prefixes",
    "tokens": "show what a prompt becomes, where two prompts part, whether an engine sees the same",
    "explain": "show which worker a request would get, what each would cost, what would change that",
    "index": "look into what a router knows of the engines' caches; keep, load and check it",
    "drain": "have a worker finish what it has and get nothing more, before it is stopped",
    "keys": "make API keys for the router's clients and operators",
    "engine": "run an emulated vLLM server, for trying and testing without a GPU",
    "simulate": "compare policies on a workload, on modelled engines, in virtual time",
    "replay": "tell what prefix-aware routing would give the traffic in a log of yours",
    "anonymize": "take the texts out of a log, for 'replay' elsewhere",
    "doctor": "find what breaks the prefixes of a log's requests, what it costs and how to mend it",
    "demo": "show what prefix-aware routing gives, on emulated engines",
}


# As a shell shows a process that SIGPIPE has ended.
_READER_GONE = 128 + 13


class Command(Protocol):
    """What a command's module provides."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's flags."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work; the result is the exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(words)
    arguments = parser.parse_args(words)
    if arguments.command is None:
        parser.print_help()
        return 2
    try:
        return _command(arguments.command).run(arguments)
    except WarmrouteError as error:
        sys.stderr.write(f"warmroute {arguments.command}: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever reads us, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed at the exit
        return _READER_GONE


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="warmroute",
        description="Sends each LLM request to the worker that already holds its prefix.",
        epilog="'warmroute COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"warmroute {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    asked = next((word for word in words if word in _COMMANDS), None)
    for name, summary in _COMMANDS.items():
        command_parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        # Only the command that runs is imported: `--version` must not pay for the engine's imports.
        if name == asked:
            _command(name).add_arguments(command_parser)
    return parser


def _command(name: str) -> Command:
    return cast(Command, import_module(f"warmroute.cli.{name}"))
