"""The texts in a body, each with its field, in the order in which a chat template writes them.

Tools come first, then documents, the system prompt and the messages; a completion has its prompt. This is what the
doctor compares and names; what is counted is the prompt itself, see `prompt_blocks.py`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from warmroute.openai_api import Endpoint, JsonObject

Path = tuple[str | int, ...]

# Beyond this no body of a client is nested, and recursion ends.
_DEEPEST = 48
# Of a message these are written into the prompt, in this order.
_CHAT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "tool_call_id", "name")
# What names the kind of a part, or marks it for a cache, is no text of the prompt; nor is an item's own name.
_SILENT = frozenset({"type", "role", "cache_control", "status"})
_ITEM_SILENT = _SILENT | {"id"}
_SYSTEM_ROLES = ("system", "developer")


class Zone(StrEnum):
    """Whose text it is."""

    TOOLS = "tools"
    DOCUMENTS = "documents"
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    RESULT = "result"
    PROMPT = "prompt"


class Leaf(NamedTuple):
    """One text of a body. message: its position among the messages; -1 outside of them."""

    path: Path
    zone: Zone
    message: int
    text: str

    @property
    def field(self) -> str:
        """Such as `messages[0].content`."""
        return field_name(self.path)


def field_name(path: Path) -> str:
    """A path as a person writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def messages_name(endpoint: Endpoint) -> str:
    """The field in which an endpoint's bodies have their messages."""
    return "input" if endpoint is Endpoint.RESPONSES else "messages"


def system_name(endpoint: Endpoint) -> str | None:
    """The field beside the messages that holds the system prompt; None where it is one of them."""
    return {Endpoint.RESPONSES: "instructions", Endpoint.MESSAGES: "system"}.get(endpoint)


def messages_of(body: JsonObject, endpoint: Endpoint) -> list[Any]:
    """The messages, or items; empty where there is no list of them."""
    value = body.get(messages_name(endpoint))
    return value if isinstance(value, list) else []


def leaves_of(body: JsonObject, endpoint: Endpoint) -> list[Leaf]:
    """All texts of a body."""
    found = list(_walk(body.get("tools"), ("tools",), Zone.TOOLS, -1, _SILENT))
    found.extend(_walk(body.get("documents"), ("documents",), Zone.DOCUMENTS, -1, _SILENT))
    system = system_name(endpoint)
    if system is not None:
        found.extend(_walk(body.get(system), (system,), Zone.SYSTEM, -1, _SILENT))
    name = messages_name(endpoint)
    value = body.get(name)
    if isinstance(value, str):
        found.append(Leaf((name,), Zone.USER, 0, value))
    for position, message in enumerate(messages_of(body, endpoint)):
        found.extend(_message(message, (name, position), position, endpoint))
    for prompt in ("prompt", "text"):
        if endpoint in (Endpoint.COMPLETIONS, Endpoint.GENERATE):
            found.extend(_walk(body.get(prompt), (prompt,), Zone.PROMPT, -1, frozenset()))
    return found


def zone_of(message: Any) -> Zone:
    """Whose message it is."""
    if not isinstance(message, dict):
        return Zone.USER
    role, kind = message.get("role"), message.get("type")
    if role in _SYSTEM_ROLES:
        return Zone.SYSTEM
    if role == "assistant" or kind in ("function_call", "custom_tool_call", "reasoning"):
        return Zone.ASSISTANT
    if role in ("tool", "function") or kind in ("function_call_output", "custom_tool_call_output"):
        return Zone.RESULT
    return Zone.USER


def _message(message: Any, path: Path, position: int, endpoint: Endpoint) -> Iterator[Leaf]:
    zone = zone_of(message)
    if not isinstance(message, dict) or endpoint is Endpoint.RESPONSES:
        yield from _walk(message, path, zone, position, _ITEM_SILENT)
        return
    for name in _CHAT_FIELDS:
        value = message.get(name)
        if isinstance(value, str):
            yield Leaf((*path, name), zone, position, value)
        elif value:
            yield from _walk(value, (*path, name), zone, position, _SILENT)


def _walk(value: Any, path: Path, zone: Zone, message: int, silent: frozenset[str]) -> Iterator[Leaf]:
    if isinstance(value, str):
        yield Leaf(path, zone, message, value)
    elif len(path) > _DEEPEST:
        return
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in silent:
                yield from _walk(inner, (*path, name), zone, message, silent)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _walk(inner, (*path, position), zone, message, silent)


def value_at(body: Any, path: Path) -> Any:
    """What a body has at a path; None where it has nothing there."""
    for step in path:
        if isinstance(body, dict):
            body = body.get(step)
        elif isinstance(body, list) and isinstance(step, int) and 0 <= step < len(body):
            body = body[step]
        else:
            return None
    return body


def replaced(body: Any, path: Path, value: Any) -> Any:
    """The body with another value at a path that it has; what is not on the path is shared with the old one."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(body, dict):
        return {**body, step: replaced(body[step], rest, value)}
    return [replaced(each, rest, value) if position == step else each for position, each in enumerate(body)]
