"""The lines of a log: from a file or from standard input, packed by gzip or not, a line at a time."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from warmroute.errors import ConfigError

STANDARD_INPUT = "-"
LONGEST_LINE = 256 * 2**20
"""Bytes of a line; what is longer is no request, and would fill the memory."""

_GZIP = b"\x1f\x8b"


def read_lines(name: str) -> Iterator[tuple[int, bytes | None]]:
    """Number (from 1) and bytes of each line that is not blank; None for one that is longer than `LONGEST_LINE`.

    name: a file, or `-` for standard input; what begins as gzip does is unpacked. ConfigError where it cannot be read.
    """
    try:
        with _opened(name) as file:
            yield from _lines(file)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error


def read_whole(name: str) -> bytes | None:
    """All bytes of a file, or of standard input; None where they are more than `LONGEST_LINE`. Raises ConfigError."""
    try:
        with _opened(name) as file:
            data = file.read(LONGEST_LINE + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    return data if len(data) <= LONGEST_LINE else None


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            _skip_rest(file)
            yield number, None
        elif not line.isspace():
            yield number, line


def _skip_rest(file: BinaryIO) -> None:
    while rest := file.readline(2**20):
        if rest.endswith(b"\n"):
            return


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STANDARD_INPUT:
        yield _unpacked(sys.stdin.buffer)
        return
    with Path(name).expanduser().open("rb") as file:
        yield _unpacked(file)


def _unpacked(file: BinaryIO) -> BinaryIO:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    if buffered.peek(2)[:2] == _GZIP:
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered))
    return buffered
