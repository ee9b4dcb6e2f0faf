"""The texts in a body, each with its field, in the order in which a chat template writes them.

Tools come first, then documents, the system prompt and the messages; a completion has its prompt. This is what the
doctor compares and names; what is counted is the prompt itself, see `prompt_blocks.py`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from warmroute.doctor.transcript import TextTurn, transcript, written
from warmroute.openai_api import Endpoint, JsonObject


class Turn(int):
    """A step of a path into a text that is written as a conversation: one of its turns."""


Path = tuple[str | int, ...]

# Beyond this no body of a client is nested, and recursion ends.
_DEEPEST = 48
# Of a message these are written into the prompt, in this order.
_CHAT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "tool_call_id", "name")
# What names the kind of a part, or marks it for a cache, is no text of the prompt; nor is an item's own name.
_SILENT = frozenset({"type", "role", "cache_control", "status"})
_ITEM_SILENT = _SILENT | {"id"}
# Of a turn that was read from a text: how the text marks it.
_MARKER = "marker"
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
    named = (step for step in path if not isinstance(step, Turn))
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in named).lstrip(".")


def messages_name(endpoint: Endpoint) -> str:
    """The field in which an endpoint's bodies have their messages."""
    return "input" if endpoint is Endpoint.RESPONSES else "messages"


def system_name(endpoint: Endpoint) -> str | None:
    """The field beside the messages that holds the system prompt; None where it is one of them."""
    return {Endpoint.RESPONSES: "instructions", Endpoint.MESSAGES: "system"}.get(endpoint)


def messages_of(body: JsonObject, endpoint: Endpoint) -> list[Any]:
    """The messages, items or turns; empty where there are none. The cue for an answer is no turn."""
    path = prompt_path(body, endpoint)
    if path is not None:
        turns = _turns(value_at(body, path))
        return [{"role": turn.role, "content": turn.text, _MARKER: turn.marker} for turn in turns]
    value = body.get(messages_name(endpoint))
    return value if isinstance(value, list) else []


def with_messages(body: JsonObject, endpoint: Endpoint, messages: list[Any]) -> JsonObject:
    """The body with other messages, items or turns."""
    path = prompt_path(body, endpoint)
    if path is None:
        return {**body, messages_name(endpoint): messages}
    text = value_at(body, path)
    cue = transcript(text)[len(_turns(text)) :] if (transcript(text)) else ()  # type: ignore[index]
    written_out = "".join(str(each.get(_MARKER, "")) + str(each.get("content", "")) for each in messages)
    return _object(replaced(body, path, written_out + written(cue)))


def prompt_path(body: JsonObject, endpoint: Endpoint) -> Path | None:
    """Where a completion has its prompt; None where it has several, or none that is a text."""
    if endpoint not in (Endpoint.COMPLETIONS, Endpoint.GENERATE):
        return None
    name = "prompt" if "prompt" in body else "text"
    value = body.get(name)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return (name, 0)
    return (name,) if isinstance(value, str) else None


def _turns(text: str) -> tuple[TextTurn, ...]:
    turns = transcript(text) or ()
    return turns[:-1] if turns and turns[-1].role == "assistant" and not turns[-1].text.strip() else turns


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
    for position, message in enumerate(value if isinstance(value, list) else ()):
        found.extend(_message(message, (name, position), position, endpoint))
    if endpoint in (Endpoint.COMPLETIONS, Endpoint.GENERATE):
        found.extend(_prompt(body, endpoint))
    return found


def _prompt(body: JsonObject, endpoint: Endpoint) -> Iterator[Leaf]:
    path = prompt_path(body, endpoint)
    turns = () if path is None else _turns(value_at(body, path))
    if path is None or not turns:
        for name in ("prompt", "text"):
            yield from _walk(body.get(name), (name,), Zone.PROMPT, -1, frozenset())
        return
    for position, turn in enumerate(turns):
        yield Leaf((*path, Turn(position)), zone_of({"role": turn.role}), position, turn.text)


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
        if isinstance(step, Turn):
            turns = transcript(body) or () if isinstance(body, str) else ()
            body = turns[step].text if step < len(turns) else None
        elif isinstance(body, dict):
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
    if isinstance(step, Turn):
        turns = list(transcript(body) or ())
        turns[step] = TextTurn(turns[step].marker, turns[step].role, value)
        return written(turns)
    if isinstance(body, dict):
        return {**body, step: replaced(body[step], rest, value)}
    return [replaced(each, rest, value) if position == step else each for position, each in enumerate(body)]


def offset_of(body: JsonObject, path: Path) -> int:
    """Characters of the field in front of a text in it: of a turn those of the turns before it."""
    turn = path[-1] if path else None
    if not isinstance(turn, Turn):
        return 0
    turns = transcript(value_at(body, path[:-1])) or ()
    return len(written(turns[:turn])) + len(turns[turn].marker) if turn < len(turns) else 0


def _object(value: Any) -> JsonObject:
    assert isinstance(value, dict)
    return value
