"""The end of a prompt, which is where a text belongs that is another one in each request."""

from typing import Any

from warmroute.doctor.leaves import (
    Zone,
    leaves_of,
    messages_name,
    messages_of,
    prompt_path,
    replaced,
    value_at,
    zone_of,
)
from warmroute.openai_api import Endpoint, JsonObject

_GAP = "\n\n"


def with_text_at_end(body: JsonObject, endpoint: Endpoint, text: str) -> JsonObject:
    """The body with a text behind all others: in the last message where a user or a tool has said it."""
    if endpoint in (Endpoint.COMPLETIONS, Endpoint.GENERATE):
        return _in_last_turn(body, endpoint, text)
    name = messages_name(endpoint)
    if isinstance(body.get(name), str):
        return {**body, name: body[name] + _GAP + text}
    messages = messages_of(body, endpoint)
    if not messages or not _takes_text(messages[-1]):
        return {**body, name: [*messages, {"role": "user", "content": text}]}
    return {**body, name: [*messages[:-1], {**messages[-1], "content": _lengthened(messages[-1], endpoint, text)}]}


def _takes_text(message: Any) -> bool:
    if not isinstance(message, dict) or zone_of(message) not in (Zone.USER, Zone.RESULT):
        return False
    return isinstance(message.get("content"), str | list)


def _lengthened(message: JsonObject, endpoint: Endpoint, text: str) -> Any:
    content = message["content"]
    if isinstance(content, str):
        return content + _GAP + text
    last = content[-1] if content else None
    if isinstance(last, dict) and isinstance(last.get("text"), str):
        return [*content[:-1], {**last, "text": last["text"] + _GAP + text}]
    return [*content, {"type": "input_text" if endpoint is Endpoint.RESPONSES else "text", "text": text}]


def _in_last_turn(body: JsonObject, endpoint: Endpoint, text: str) -> JsonObject:
    """In the last turn of the user; where there are no turns, before the last paragraph, which is gone on from."""
    path = prompt_path(body, endpoint)
    if path is None:
        return body
    leaves = [leaf for leaf in leaves_of(body, endpoint) if leaf.zone in (Zone.USER, Zone.RESULT)]
    if leaves:
        last = leaves[-1]
        said = last.text.rstrip()
        changed = replaced(body, last.path, said + _GAP + text + last.text[len(said) :])
    else:
        changed = replaced(body, path, _before_last_paragraph(value_at(body, path), text))
    assert isinstance(changed, dict)
    return changed


def _before_last_paragraph(prompt: str, text: str) -> str:
    cut = prompt.rstrip().rfind(_GAP)
    if cut < 0:
        cut = prompt.rstrip().rfind("\n")
    return f"{text}{_GAP}{prompt}" if cut < 0 else f"{prompt[:cut]}{_GAP}{text}{prompt[cut:]}"
