"""How these tests read: lines of a log, all at once."""

from pathlib import Path

from warmroute.request_log import Blocking, open_log
from warmroute.request_log.formats import LineReader
from warmroute.request_log.request import LoggedRequest, ToldPrompt
from warmroute.simulator.logs import LogRequests, read_all


def read_lines_of(reader: LineReader, *lines: str | bytes) -> list[LoggedRequest]:
    """All requests that the lines tell of; what a reader raises is not caught."""
    requests: list[LoggedRequest] = []
    for line in lines:
        requests.extend(reader.read(line.encode() if isinstance(line, str) else line))
    return [*requests, *reader.rest()]


def content_of(request: LoggedRequest) -> object:
    """The content of a request whose prompt is told."""
    assert isinstance(request.prompt, ToldPrompt)
    return request.prompt.content


def read_file(path: Path, text: str | bytes, blocking: Blocking | None = None, limit: int | None = None) -> LogRequests:
    """The log with this text, as `warmroute replay` reads it."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    reading, requests = open_log(str(path))
    return read_all(reading, requests, blocking or Blocking(), limit=limit)
