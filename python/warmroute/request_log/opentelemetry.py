"""Spans by OpenTelemetry's conventions for generative AI: the collector's JSON, or spans one a line.

    {"resourceSpans": [{"resource": {"attributes": [...]}, "scopeSpans": [{"spans": [
      {"startTimeUnixNano": "1771000000512000000", "attributes": [
        {"key": "gen_ai.request.model", "value": {"stringValue": "qwen3"}},
        {"key": "gen_ai.system_instructions", "value": {"stringValue": "[{\\"content\\": ...}]"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue": "[{\\"role\\": ..., \\"parts\\": [...]}]"}}]}]}]}]}
    {"name": "chat qwen3", "start_time": "2026-02-13T11:33:33Z", "attributes": {"gen_ai.prompt.0.role": "system", ...}}

Prompts are there only where the instrumentation was told to keep them. Sources: OpenTelemetry's semantic conventions
1.37 for spans of generative AI; the numbered `gen_ai.prompt.N` of OpenLLMetry.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.fields import first, inner, json_object, name_in, time_in
from warmroute.request_log.logged import Logged
from warmroute.request_log.request import BrokenLine

_MESSAGES = ("gen_ai.input.messages", "gen_ai.prompt", "input.value")
_INSTRUCTIONS = ("gen_ai.system_instructions",)
_TOOLS = ("gen_ai.tool.definitions", "gen_ai.request.tools")
_MODELS = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")
_SESSIONS = ("gen_ai.conversation.id", "session.id")
_USERS = ("user.id", "enduser.id")
_APPLICATIONS = ("gen_ai.agent.name", "service.name")
_TIMES = ("startTimeUnixNano", "start_time", "startTime", "start_time_unix_nano", "timestamp")
# Messages of a conversation that is written as numbered attributes.
_MOST_NUMBERED = 10_000


def fits(fields: JsonObject) -> bool:
    """Whether an object is such a span, or holds spans."""
    return isinstance(fields.get("resourceSpans"), list) or any(
        name.startswith("gen_ai.") for name in _attributes(fields.get("attributes"))
    )


def read_bodies(line: bytes) -> Sequence[Logged]:
    """The bodies that the spans of a line tell. Raises BrokenLine where none of its spans holds a prompt."""
    fields = json_object(line)
    bodies = [logged for span, shared in _spans(fields) if (logged := _logged(span, shared)) is not None]
    if not bodies:
        raise BrokenLine("its spans hold no prompt (the instrumentation has to be told to keep contents)")
    return bodies


def _spans(fields: JsonObject) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Each span with the attributes of what it belongs to."""
    if not isinstance(fields.get("resourceSpans"), list):
        yield fields, _attributes(inner(fields, "resource").get("attributes"))
        return
    for resource in _objects(fields["resourceSpans"]):
        shared = _attributes(inner(resource, "resource").get("attributes"))
        for scope in _objects(resource.get("scopeSpans")):
            yield from ((span, shared) for span in _objects(scope.get("spans")))


def _logged(span: JsonObject, shared: JsonObject) -> Logged | None:
    told = {**shared, **_attributes(span.get("attributes"))}
    messages = [_chat_message(each) for each in _objects(_parsed(first(told, _MESSAGES)))] or _numbered(told)
    if not messages:
        return None
    instructions = _joined(_parsed(first(told, _INSTRUCTIONS)))
    body: JsonObject = {"model": name_in(told, *_MODELS)}
    tools = _objects(_parsed(first(told, _TOOLS)))
    if tools:
        body["tools"] = tools
    body["messages"] = ([{"role": "system", "content": instructions}] if instructions else []) + messages
    return Logged(
        body,
        path="/v1/chat/completions",
        at_s=time_in(span, *_TIMES),
        session=name_in(told, *_SESSIONS),
        user=name_in(told, *_USERS),
        application=name_in(told, *_APPLICATIONS),
    )


def _chat_message(message: JsonObject) -> JsonObject:
    """In the shape of the chat endpoint: parts of a text become its content, calls and results what they are there."""
    parts = _objects(message.get("parts"))
    if not parts:
        return message
    chat: JsonObject = {"role": message.get("role"), "content": _joined(parts)}
    calls = [
        {"id": part.get("id"), "type": "function", "function": {"name": part.get("name"), "arguments": _text(part)}}
        for part in parts
        if part.get("type") == "tool_call"
    ]
    reasoning = "".join(_text(part) for part in parts if part.get("type") == "reasoning")
    return chat | ({"reasoning_content": reasoning} if reasoning else {}) | ({"tool_calls": calls} if calls else {})


def _joined(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "".join(_text(part) for part in _objects(value) if part.get("type") in (None, "text", "tool_call_response"))


def _text(part: JsonObject) -> str:
    value = first(part, ("content", "text", "arguments", "response", "result"))
    if isinstance(value, str) or value is None:
        return value or ""
    return msgspec.json.encode(value).decode()


def _numbered(told: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = []
    for number in range(_MOST_NUMBERED):
        role, content = told.get(f"gen_ai.prompt.{number}.role"), told.get(f"gen_ai.prompt.{number}.content")
        if role is None and content is None:
            break
        found.append({"role": role, "content": content if isinstance(content, str) else ""})
    return found


def _parsed(value: Any) -> Any:
    """Contents are kept as JSON in a text where attributes cannot be structured."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _attributes(value: Any) -> JsonObject:
    """As names and values, whether they are written so or as the collector writes them."""
    if isinstance(value, dict):
        return value
    return {str(each.get("key")): _plain(each.get("value")) for each in _objects(value)}


def _plain(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "arrayValue" in value:
        return [_plain(each) for each in inner(dict(value), "arrayValue").get("values") or []]
    if "kvlistValue" in value:
        return _attributes(inner(dict(value), "kvlistValue").get("values"))
    return next(iter(value.values()), None)


def _objects(value: Any) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
