"""The ways in which a worker can lie, and what it does then."""

import json
from enum import StrEnum


class Lie(StrEnum):
    """HONEST: the true engine's answer. The others are named after what the router gets instead."""

    HONEST = "honest"
    RESET = "reset"
    """RST once the request has come."""
    CLOSE = "close"
    """FIN without a byte."""
    GARBAGE = "garbage"
    HALF_HEAD = "half-head"
    HUGE_HEAD = "huge-head"
    """A head of a megabyte, and no end of it."""
    HALF_ANSWER = "half-answer"
    """FIN within the body, within a chunk where it is chunked."""
    HALF_RESET = "half-reset"
    """RST there."""
    LONG_LENGTH = "long-length"
    """Declares more than it sends."""
    SHORT_LENGTH = "short-length"
    """Declares less than it sends: the rest must not become the next request's answer."""
    SURPLUS = "surplus"
    """A whole answer, and with it another one that nobody asked for."""
    LAST = "last"
    """A whole answer, and the connection ends without a word of it: the next request finds it closed."""
    HINTS = "hints"
    """103 and 100 before the answer."""
    BUSY_429 = "busy-429"
    BUSY_503 = "busy-503"
    BROKEN_500 = "broken-500"
    HEAD_THEN_SILENCE = "head-then-silence"
    SILENCE = "silence"
    """Takes the request and never says a word."""


_INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n"
_SILENT_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"x-chaos-lie: head-then-silence\r\ntransfer-encoding: chunked\r\n\r\n"
)
EVIL = b"this answer was for nobody"
SURPLUS = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%b" % (len(EVIL), EVIL)
BEFORE = {Lie.HINTS: _INTERIM}


def _error(status: int, phrase: str, *lines: str) -> bytes:
    body = json.dumps({"error": {"message": f"the worker says {status}", "type": "chaos", "code": status}}).encode()
    words = [f"HTTP/1.1 {status} {phrase}", "content-type: application/json", f"content-length: {len(body)}", *lines]
    return ("\r\n".join(words) + "\r\n\r\n").encode() + body


NO_PAGE = _error(404, "Not Found")
# What is said in place of an answer; the connection goes on after a whole one, and ends after the others.
INSTEAD: dict[Lie, bytes] = {
    Lie.CLOSE: b"",
    Lie.GARBAGE: b"\x16\x03\x01\x02\x00 SSH-2.0-chaos\r\n\xff\xfe\r\n\r\n{}",
    Lie.HALF_HEAD: b"HTTP/1.1 200 OK\r\ncontent-ty",
    Lie.HUGE_HEAD: b"HTTP/1.1 200 OK\r\n" + b"x-more: " + b"m" * (1 << 20),
    Lie.BUSY_429: _error(429, "Too Many Requests", "retry-after: 1"),
    Lie.BUSY_503: _error(503, "Service Unavailable"),
    Lie.BROKEN_500: _error(500, "Internal Server Error"),
    Lie.HEAD_THEN_SILENCE: _SILENT_HEAD,
    Lie.SILENCE: b"",
}
STAYS_OPEN = (Lie.BUSY_429, Lie.BUSY_503, Lie.BROKEN_500)
GOES_SILENT = (Lie.HEAD_THEN_SILENCE, Lie.SILENCE)
