"""The JSON body and its fields, read as leniently as the engines read them."""

import json
from array import array
from typing import Any

import msgspec

from warmroute.errors import WarmrouteError
from warmroute.openai_api.prompt import JsonObject

# Beyond this a token count is a mistake, and would overflow the arithmetic of costs.
_LARGEST_COUNT = 2**53
# What pydantic, and so the engines, read as true.
_TRUE_WORDS = frozenset({"1", "on", "t", "true", "y", "yes"})


class UnreadableBody(WarmrouteError):
    """A body, or a field of it, is not what its endpoint takes; the text says which."""


def read_object(body: bytes) -> JsonObject:
    """The JSON object in `body`. Raises UnreadableBody."""
    value = _read_json(body)
    if not isinstance(value, dict):
        raise UnreadableBody("the body is not a JSON object")
    return value


def _read_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        # Python's reader, which the engines use, also takes NaN, halves of surrogate pairs and 1e999.
        return _read_as_engines_do(body)
    except RecursionError as exc:
        raise UnreadableBody("the body is nested too deeply") from exc


def _read_as_engines_do(body: bytes) -> Any:
    try:
        # Half of a surrogate pair cannot be tokenized, so the engine will refuse it; the rest of the body still counts.
        return json.loads(json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as exc:
        raise UnreadableBody("the body is nested too deeply") from exc
    except ValueError as exc:
        raise UnreadableBody(f"the body is not JSON: {exc}"[:200]) from exc


def kind(value: JsonObject) -> str:
    """The `type` of an object; empty where there is none or it is not a string."""
    name = value.get("type")
    return name if isinstance(name, str) else ""


def flag(body: JsonObject, name: str, default: bool) -> bool:
    """A boolean field; absent or null is `default`."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        return value.lower() in _TRUE_WORDS
    return value is True or value == 1


def is_truncated(body: JsonObject) -> bool:
    """Whether the engine is asked to drop the head of the prompt, so that nothing is a prefix of what it sees.

    vLLM's -1 is no such thing: it cuts what is longer than the model's context, which would be refused otherwise.
    """
    return body.get("truncate_prompt_tokens") not in (None, -1)


def count(body: JsonObject, *names: str) -> int | None:
    """The first of the named fields that is a whole number of tokens."""
    for name in names:
        value = body.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is int and 0 <= value <= _LARGEST_COUNT:
            return value
    return None


def text(body: JsonObject, name: str) -> str | None:
    """A text field; absent or null is None. Raises UnreadableBody for any other type."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise UnreadableBody(f"`{name}` is not a string")
    return value


def token_ids(value: list[Any], name: str) -> "array[int]":
    """A list of token ids as 32-bit words; like the engines it takes true for 1. Raises UnreadableBody.

    18.8 MB of ids are read and checked in 0.14 s, nearly all of it the JSON reader's; checking each in a loop of Python
    doubled that.
    """
    try:
        return array("I", value)
    except (TypeError, OverflowError) as exc:
        raise UnreadableBody(f"`{name}` holds something that is not a token id") from exc


def objects(body: JsonObject, name: str) -> list[JsonObject] | None:
    """A list of objects; absent or null is None. Raises UnreadableBody for anything else."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UnreadableBody(f"`{name}` is not a list of objects")
    return value
