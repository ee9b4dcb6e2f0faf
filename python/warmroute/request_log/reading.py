"""A whole log: its requests one after the other, and what could not be read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from warmroute.errors import ConfigError
from warmroute.openai_api import TextContent
from warmroute.request_log import har, vllm
from warmroute.request_log.body_reader import ReadBodies
from warmroute.request_log.formats import LineReader, LogFormat, detected, format_named
from warmroute.request_log.lines import read_lines, read_whole
from warmroute.request_log.logged import Logged
from warmroute.request_log.mooncake import BLOCK_TOKENS
from warmroute.request_log.request import BrokenLine, LeftOut, LoggedRequest, ToldPrompt

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


def open_bodies(name: str, format_name: str | None = None) -> tuple[LogReading, Iterator[Logged]]:
    """What is known of a log as it is read, and the bodies in it; an HTTP archive is read whole.

    Raises ConfigError as `open_log` does, and where the log's format keeps no bodies.
    """
    is_archive = format_name == har.NAME or (format_name is None and name.endswith((".har", ".har.gz")))
    lines = iter([(1, read_whole(name))]) if is_archive else read_lines(name)
    if is_archive or format_name is not None:
        found = format_named(format_name or har.NAME)
    else:
        found, lines = detected(name, lines)
    reading = LogReading(name, found)
    if found.read_bodies is not None:
        return reading, _bodies(reading, lines, found.read_bodies)
    if found.name != vllm.NAME:
        raise ConfigError(f"{name} (read as {found.name}) holds no texts, only hashes of them or lengths")
    told = _requests(reading, lines, found.reader(BLOCK_TOKENS))
    return reading, (logged for _, request in told if (logged := _as_body(reading, request)) is not None)


def _bodies(
    reading: LogReading, lines: Iterator[tuple[int, bytes | None]], read_bodies: ReadBodies
) -> Iterator[Logged]:
    for number, line in lines:
        if line is None:
            reading.note(number, _TOO_LONG)
            continue
        try:
            bodies = read_bodies(line)
        except BrokenLine as error:
            reading.note(number, str(error))
            continue
        except LeftOut as error:
            reading.left_out[str(error)] += 1
            continue
        reading.requests += len(bodies)
        yield from bodies


def _as_body(reading: LogReading, request: LoggedRequest) -> Logged | None:
    """A prompt that the engine has logged, as the body of a completion."""
    prompt = request.prompt
    if not isinstance(prompt, ToldPrompt) or not isinstance(prompt.content, TextContent):
        reading.left_out["it is logged as token ids alone"] += 1
        return None
    reading.requests += 1
    body = {"model": prompt.model, "prompt": prompt.content.text}
    return Logged(body, path="/v1/completions", at_s=request.at_s, session=request.session)


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
