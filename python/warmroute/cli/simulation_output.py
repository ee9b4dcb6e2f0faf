"""What `warmroute simulate` and `warmroute replay` do alike: where results go, and how the work is cut short."""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warmroute.errors import ConfigError, WarmrouteError
from warmroute.simulator.comparison import Values
from warmroute.simulator.many import RunFailed
from warmroute.simulator.rivals import ARMS

STDOUT = "-"
ALL = "all"
"""Stands for every policy."""


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--json`."""
    parser.add_argument(
        "--json",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write everything as one JSON object, to standard output (and no table) without FILE or with -",
    )


def chosen_policies(given: Sequence[str]) -> tuple[str, ...]:
    """The policies that were named, each once, in the order given."""
    return tuple(dict.fromkeys(name for each in given for name in (ARMS if each == ALL else [each])))


def check_writable(*paths: str | None) -> None:
    """ConfigError where a file that is asked for cannot be written: told before minutes of work, not after."""
    for told in paths:
        if told is not None and told != STDOUT:
            _check_writable(Path(told))


def end_as_by_interrupt() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, so that its processes end before it; not where whoever
    started it has them ignored, as nohup does.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def tell_failed(command: str, error: RunFailed) -> int:
    """Say which simulation failed; the exit code."""
    if not isinstance(error.__cause__, WarmrouteError):  # not foreseen, so whoever mends it wants to see where
        traceback.print_exception(error.__cause__)
    sys.stderr.write(f"warmroute {command}: {error}\n")
    return 1


def write_json(path: str, value: Values) -> None:
    """As one object; equal values give equal bytes."""
    write(path, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def write(path: str, data: bytes) -> None:
    """To a file or to standard output. Raises ConfigError."""
    if path == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _check_writable(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise ConfigError(f"{path} cannot be written: there is no folder {folder}")
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"{path} cannot be written")
