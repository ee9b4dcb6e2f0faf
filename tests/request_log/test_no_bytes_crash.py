"""No line, whatever it holds, makes a reader raise anything but that the line is broken or left out."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from request_log.test_litellm import PAYLOAD, SPEND_ROW
from request_log.test_reading import ANONYMIZED, BODY, DYNAMO, MOONCAKE
from request_log.test_vllm import lines_0_10, lines_0_16
from warmroute.request_log import FORMATS, Blocking
from warmroute.request_log.formats import LineReader
from warmroute.request_log.mooncake import BLOCK_TOKENS
from warmroute.request_log.request import BrokenLine, LeftOut
from warmroute.request_log.times import seconds

SEEDS = [
    line.encode()
    for line in (BODY, MOONCAKE, ANONYMIZED, DYNAMO, json.dumps(PAYLOAD), json.dumps(SPEND_ROW), lines_0_10("it's"))
] + [line.encode() for line in lines_0_16("it's", "[1, 2]")]
READERS = [each.name for each in FORMATS]
WORDS = [
    *("timestamp", "ts", "body", "request", "response", "usage", "messages", "prompt", "input", "role", "content"),
    *("startTime", "endTime", "model", "metadata", "proxy_server_request", "call_type", "status", "headers", "tools"),
    *("hash_ids", "input_length", "output_length", "block_size", "session", "event", "replay", "log", "type", "text"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6),
    max_leaves=20,
)


def reader(name: str) -> LineReader:
    return next(each for each in FORMATS if each.name == name).reader(BLOCK_TOKENS)


def read(name: str, *lines: bytes) -> None:
    """Read, and make blocks of what was read."""
    reads, blocking = reader(name), Blocking()
    requests = list[Any]()
    for line in lines:
        try:
            requests.extend(reads.read(line))
        except (BrokenLine, LeftOut) as error:
            assert str(error)  # noqa: PT017 - that it says something is the point
    for request in (*requests, *reads.rest()):
        try:
            assert blocking.blocked(request).prompt_tokens >= 1
        except BrokenLine:
            continue


@pytest.mark.parametrize("name", READERS)
@settings(deadline=None)
@given(lines=st.lists(st.binary(max_size=200), max_size=3))
def test_any_bytes(name: str, lines: list[bytes]) -> None:
    read(name, *lines)


@pytest.mark.parametrize("name", READERS)
@settings(deadline=None)
@given(fields=st.dictionaries(st.sampled_from(WORDS), JSON, max_size=8))
def test_any_object_with_the_right_words(name: str, fields: dict[str, Any]) -> None:
    read(name, json.dumps(fields).encode())
    for each in FORMATS:
        each.takes(json.dumps(fields).encode(), fields)


@pytest.mark.parametrize("name", READERS)
@settings(deadline=None)
@given(line=st.sampled_from(SEEDS), at=st.integers(0, 400), cut=st.integers(0, 60), put=st.binary(max_size=6))
def test_real_lines_that_were_damaged(name: str, line: bytes, at: int, cut: int, put: bytes) -> None:
    damaged = line[:at] + put + line[at + cut :]
    read(name, damaged, line)


@settings(deadline=None)
@given(value=JSON)
def test_any_time(value: Any) -> None:
    try:
        assert abs(seconds(value)) < 1e12
    except BrokenLine:
        return
