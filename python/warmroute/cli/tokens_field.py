"""Which field of a request a place in the rendered prompt comes from.

The texts in the body are looked for in the prompt, as they are and as JSON writes them; the longest that covers the
place is it. Where several messages say the same, or none does, the conversation is rendered with fewer messages until
the place is no longer reached: that is the message.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from warmroute.errors import TemplateError

# Fields that reach the prompt; the others are for the engine alone.
_FIELDS = (
    "messages",
    "system",
    "tools",
    "prompt",
    "input",
    "instructions",
    "documents",
    "text",
    "chat_template_kwargs",
)
_LISTS_OF_MESSAGES = ("messages", "input")
# Names of kinds, which stand in prompts as plain words as well.
_KINDS = frozenset({"type", "object"})
# Shorter texts may be a part of any word; these must stand alone.
_LONG = 16


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where a place in the prompt comes from.

    field: such as `messages[1].content[0].text`; None where the chat template itself writes what stands there.
    offset: characters from the beginning of that field's text; None with it.
    message, role: of the message it belongs to; None where that cannot be told.
    """

    field: str | None = None
    offset: int | None = None
    message: int | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: str
    text: str
    message: int | None
    role: str | None


@dataclass(frozen=True, slots=True)
class _Found:
    leaf: _Leaf
    start: int
    length: int


Rendering = Callable[[int], str]
"""The prompt of the first so many messages of the body. Raises TemplateError."""


def field_at(body: Any, text: str, offset: int, rendering: Rendering | None, messages: int) -> FieldPlace:
    """Where character `offset` of the prompt `text`, made from the JSON object `body`, comes from.

    `rendering`: None where there is no conversation of `messages` messages to render.
    """
    found = [hit for leaf in _leaves_of(body) if (hit := _covering(leaf, text, offset)) is not None]
    longest = max((hit.length for hit in found), default=0)
    found = [hit for hit in found if hit.length == longest]
    if len(found) == 1:
        return _place(found[0], offset)
    message = None if rendering is None else _message_at(rendering, messages, text, offset)
    of_message = [hit for hit in found if hit.leaf.message == message]
    elsewhere = [hit for hit in found if hit.leaf.message is None]
    if of_message or len(elsewhere) == 1:
        return _place((of_message or elsewhere)[0], offset)
    return FieldPlace(message=message, role=_role(body, message))


def _place(found: _Found, offset: int) -> FieldPlace:
    return FieldPlace(found.leaf.path, offset - found.start, found.leaf.message, found.leaf.role)


def _leaves_of(body: Any) -> Iterator[_Leaf]:
    for name in _FIELDS:
        value = body.get(name) if isinstance(body, dict) else None
        if name in _LISTS_OF_MESSAGES and isinstance(value, list):
            for index, message in enumerate(value):
                role = message.get("role") if isinstance(message, dict) else None
                yield from _leaves(message, f"{name}[{index}]", index, role if isinstance(role, str) else None)
        else:
            yield from _leaves(value, name, None, None)


def _leaves(value: Any, path: str, message: int | None, role: str | None) -> Iterator[_Leaf]:
    if isinstance(value, str):
        yield _Leaf(path, value, message, role)
        if path.endswith(".arguments"):
            yield from _leaves(_decoded(value), path, message, role)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]", message, role)
    elif isinstance(value, dict):
        for name, item in value.items():
            if path.startswith("tools"):  # the names of parameters are in the prompt as well
                yield _Leaf(f"{path}.{name}", name, message, role)
            if not (name in _KINDS and isinstance(item, str)):
                yield from _leaves(item, f"{path}.{name}", message, role)


def _decoded(text: str) -> Any:
    """The arguments of a tool call, which templates write in a way of their own; None for what is no object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _covering(leaf: _Leaf, text: str, offset: int) -> _Found | None:
    """The leaf where it lies over the place, in the form in which it is found."""
    in_json = json.dumps(leaf.text, ensure_ascii=False)[1:-1]
    for form in dict.fromkeys((leaf.text, leaf.text.strip(), in_json, json.dumps(leaf.text)[1:-1])):
        start = text.find(form, max(0, offset - len(form) + 1), offset + len(form)) if form else -1
        if 0 <= start <= offset and (len(form) >= _LONG or _stands_alone(text, start, start + len(form))):
            return _Found(leaf, start, len(form))
    return None


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (after.isalnum() and text[end - 1].isalnum())


def _message_at(rendering: Rendering, messages: int, text: str, offset: int) -> int | None:
    """The message with which the prompt grows over the place; found by halves, as each rendering takes its time."""
    least, most = 1, messages
    while least < most:
        middle = (least + most) // 2
        if _reaches(rendering, middle, text, offset):
            most = middle
        else:
            least = middle + 1
    return least - 1 if messages and _reaches(rendering, least, text, offset) else None


def _reaches(rendering: Rendering, messages: int, text: str, offset: int) -> bool:
    try:
        return rendering(messages).startswith(text[: offset + 1])
    except TemplateError:
        return False


def _role(body: Any, message: int | None) -> str | None:
    try:
        role = body["messages"][message]["role"]
    except (KeyError, IndexError, TypeError):
        return None
    return role if isinstance(role, str) else None
