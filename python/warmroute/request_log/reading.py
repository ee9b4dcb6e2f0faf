"""A whole log: its requests one after the other, and what could not be read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from warmroute.errors import ConfigError
from warmroute.request_log.formats import LineReader, LogFormat, detected, format_named
from warmroute.request_log.lines import read_lines
from warmroute.request_log.mooncake import BLOCK_TOKENS
from warmroute.request_log.request import BrokenLine, LeftOut, LoggedRequest

SHOWN = 5
"""Broken lines that are told with their numbers; the rest is counted."""
_TOO_LONG = "it is too long for a request"


@dataclass(slots=True)
class LogReading:
    """What has been read of a log so far.

    broken: lines that could not be read. shown: number of and reason for the first of them. left_out: requests that
    no engine has computed, by the reason.
    """

    name: str
    format: LogFormat
    requests: int = 0
    broken: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def note(self, number: int, reason: str) -> None:
        """One more line, or the request that it ends, cannot be used."""
        self.broken += 1
        if len(self.shown) < SHOWN:
            self.shown.append((number, reason))


def open_log(
    name: str, format_name: str | None = None, block_tokens: int = BLOCK_TOKENS
) -> tuple[LogReading, Iterator[tuple[int, LoggedRequest]]]:
    """What is known of a log as it is read, and its requests, each with the number of the line that completed it.

    name: a file, or `-`. format_name: None where the log has to tell. block_tokens: what a block's name stands for in
    Mooncake's format. ConfigError where it cannot be read, or has no format that is known.
    """
    lines = read_lines(name)
    if format_name is not None:
        found = format_named(format_name)
    else:
        found, lines = detected(name, lines)
    reading = LogReading(name, found)
    return reading, _requests(reading, lines, found.reader(block_tokens))


def _requests(
    reading: LogReading, lines: Iterator[tuple[int, bytes | None]], reader: LineReader
) -> Iterator[tuple[int, LoggedRequest]]:
    number = 0
    for number, line in lines:
        for request in _read(reading, reader, number, line):
            yield number, request
    for request in reader.rest():
        yield number, request


def _read(reading: LogReading, reader: LineReader, number: int, line: bytes | None) -> tuple[LoggedRequest, ...]:
    if line is None:
        reading.note(number, _TOO_LONG)
        return ()
    try:
        return tuple(reader.read(line))
    except BrokenLine as error:
        reading.note(number, str(error))
    except LeftOut as error:
        reading.left_out[str(error)] += 1
    return ()


def check_any(reading: LogReading) -> None:
    """Raises ConfigError where the log, read to its end, had no request that can be used."""
    if reading.requests:
        return
    if reading.shown:
        number, reason = reading.shown[0]
        raise ConfigError(
            f"{reading.name} (read as {reading.format.name}) has no request that can be used; "
            f"of {reading.broken} broken lines the first, line {number}: {reason}"
        )
    why = "".join(f"; {count} left out: {reason}" for reason, count in sorted(reading.left_out.items()))
    raise ConfigError(f"{reading.name} (read as {reading.format.name}) has no requests{why}")
