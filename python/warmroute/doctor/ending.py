"""The end of a prompt, which is where a text belongs that is another one in each request."""

from typing import Any

from warmroute.doctor.leaves import Zone, messages_name, messages_of, zone_of
from warmroute.openai_api import Endpoint, JsonObject

_GAP = "\n\n"


def with_text_at_end(body: JsonObject, endpoint: Endpoint, text: str) -> JsonObject:
    """The body with a text behind all others: in the last message where a user or a tool has said it."""
    if endpoint in (Endpoint.COMPLETIONS, Endpoint.GENERATE):
        return _prompted(body, text)
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


def _prompted(body: JsonObject, text: str) -> JsonObject:
    """A completion goes on from its last lines, so the text is put before the last paragraph."""
    name = "prompt" if "prompt" in body else "text"
    value = body.get(name)
    if isinstance(value, list):
        return {**body, name: [_before_last_paragraph(each, text) if isinstance(each, str) else each for each in value]}
    return {**body, name: _before_last_paragraph(value, text)} if isinstance(value, str) else body


def _before_last_paragraph(prompt: str, text: str) -> str:
    cut = prompt.rstrip().rfind(_GAP)
    if cut < 0:
        cut = prompt.rstrip().rfind("\n")
    return f"{text}{_GAP}{prompt}" if cut < 0 else f"{prompt[:cut]}{_GAP}{text}{prompt[cut:]}"
