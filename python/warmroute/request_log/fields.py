"""Fields of the objects in a log, by the names that gateways and clients give them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from warmroute.openai_api.body import UnreadableBody, count, read_object
from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.request import BrokenLine
from warmroute.request_log.times import seconds

_LONGEST_NAME = 256
_INPUT_COUNTS = ("prompt_tokens", "input_tokens")
# Anthropic counts what its own cache gave apart from the rest of the prompt.
_CACHED_COUNTS = ("cache_read_input_tokens", "cache_creation_input_tokens")
_OUTPUT_COUNTS = ("completion_tokens", "output_tokens")


def json_object(line: bytes | str) -> JsonObject:
    """The object in a line. Raises BrokenLine."""
    try:
        return read_object(line if isinstance(line, bytes) else line.encode("utf-8", "replace"))
    except UnreadableBody as error:
        raise BrokenLine(str(error).replace("the body", "it")) from error


def first(fields: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The first of the named fields that is there and not null."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def inner(fields: JsonObject, *names: str) -> JsonObject:
    """The first of the named fields that is an object, or a text that holds one; empty where none is."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json_object(value)
            except BrokenLine:
                continue  # A text that only looks like one.
        if isinstance(value, dict):
            return value
    return {}


def name_in(fields: Mapping[str, Any], *names: str) -> str | None:
    """The first of the named fields that is a name: a short text, or a number."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:.0f}" if abs(value) < 2**64 else None
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME:
            return value
    return None


def time_in(fields: Mapping[str, Any], *names: str) -> float | None:
    """The first of the named times, in seconds. Raises BrokenLine where it is none."""
    value = first(fields, names)
    return None if value is None else seconds(value)


def lasting(fields: Mapping[str, Any], in_s: Iterable[str], in_ms: Iterable[str]) -> float | None:
    """How long a request took, in seconds, by fields that count seconds or milliseconds."""
    for names, unit in ((in_s, 1.0), (in_ms, 1e-3)):
        value = first(fields, names)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 and math.isfinite(value):
            return value * unit
    return None


def prompt_count(usage: JsonObject) -> int | None:
    """The prompt's tokens by a usage of OpenAI's or Anthropic's kind."""
    told = count(usage, *_INPUT_COUNTS)
    if told is None or usage.get("prompt_tokens") is not None:
        return told
    return told + sum(count(usage, name) or 0 for name in _CACHED_COUNTS)


def answer_count(usage: JsonObject) -> int | None:
    """The answer's tokens by such a usage."""
    return count(usage, *_OUTPUT_COUNTS)
