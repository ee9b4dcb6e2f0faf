"""A conversation in the shape in which the engine hands it to the chat template.

An engine does not hand over the client's messages: it drops what it does not know, writes out what was left out, and
decodes the arguments of tool calls. Rendering the client's own JSON would give other tokens, and no error anywhere.
Source: vLLM 0.32, `renderers/chat_utils.py` (`_parse_chat_message_content`, `_postprocess_messages`),
`renderers/hf.py` (`_consolidate_system_messages`) and the request models of the chat endpoint.
"""

import json
from typing import Any

from warmroute.errors import TemplateError
from warmroute.openai_api import JsonObject

_TEXT_FIELDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
# One client's header before its system prompt: it differs in each request, so the engine drops that line.
_BILLING_HEADER = "x-anthropic-billing-header"


def engine_messages(messages: list[JsonObject], takes_parts: bool, knows_developer: bool) -> list[JsonObject]:
    """The messages as the template sees them.

    `takes_parts`: contents are lists of parts, not texts. `knows_developer`: the template has a developer role;
    otherwise such messages become system messages, and all of these one. Raises TemplateError.
    """
    seen = [_message(message, takes_parts) for message in messages]
    if knows_developer or all(message["role"] != "developer" for message in seen):
        return seen
    return _one_system_message([_as_system(message) for message in seen])


def engine_tools(tools: list[JsonObject] | None) -> list[JsonObject] | None:
    """The tools as the template sees them: keys in the order of the engine's model, absent ones as null."""
    if tools is None:
        return None
    return [{"type": "function", "function": _function(tool.get("function"))} for tool in tools]


def _function(function: Any) -> JsonObject:
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise TemplateError("a tool has no function with a name")
    seen = {name: function.get(name) for name in ("name", "description", "parameters")}
    return seen | {name: function[name] for name in ("strict", "defer_loading") if function.get(name) is not None}


def _message(message: JsonObject, takes_parts: bool) -> JsonObject:
    role = message.get("role")
    if not isinstance(role, str):
        raise TemplateError("a message has no role")
    seen: JsonObject = {"role": role, "content": _content(role, message.get("content"), takes_parts)}
    if role == "assistant":
        seen |= _assistant_fields(message)
    elif role == "tool" and "tool_call_id" in message:
        seen["tool_call_id"] = message["tool_call_id"]
    elif role == "developer":
        seen["tools"] = message.get("tools")
    for name in ("name", "task"):
        if isinstance(message.get(name), str):
            seen[name] = message[name]
    return seen


def _content(role: str, content: Any, takes_parts: bool) -> str | list[JsonObject]:
    given = [content] if isinstance(content, str) else content or []
    if not isinstance(given, list):
        raise TemplateError("the content of a message is neither text nor a list of parts")
    if role == "system":
        given = [part for raw in given if (part := _without_billing_header(raw)) is not None]
    parts = [part for raw in given if (part := _part(raw)) is not None]
    only_text = all(part["type"] == "text" for part in parts)
    if takes_parts and not (role == "tool" and only_text):
        return parts
    return "\n".join(part["text"] if part["type"] == "text" else part["name"] for part in parts)


def _part(part: Any) -> JsonObject | None:
    """A part of a content; None for one that is there but empty."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise TemplateError("a part of a content is neither text nor an object with a type")
    kind = part["type"]
    if kind == "tool_reference" and isinstance(part.get("name"), str):
        return {"type": "tool_reference", "name": part["name"]}
    text = part.get(_TEXT_FIELDS[kind]) if kind in _TEXT_FIELDS else None
    if text is None and kind in ("text", "refusal"):
        return None
    if not isinstance(text, str):
        raise TemplateError(f"a part of kind {kind!r} is not text")
    return {"type": "text", "text": text}


def _without_billing_header(part: Any) -> Any:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part
    if not isinstance(text, str) or not text.startswith(_BILLING_HEADER):
        return part
    return text.partition("\n")[2] or None


def _assistant_fields(message: JsonObject) -> JsonObject:
    fields: JsonObject = {}
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise TemplateError("`tool_calls` is not a list")
        fields["tool_calls"] = [_tool_call(call) for call in calls]
    reasoning = message.get("reasoning", message.get("reasoning_content"))
    if reasoning is not None:
        # Templates ask for the one name or the other.
        fields |= {"reasoning": reasoning, "reasoning_content": reasoning}
    return fields


def _tool_call(call: Any) -> JsonObject:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise TemplateError("a tool call has no function")
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(arguments: Any) -> JsonObject:
    """Arguments come as a JSON object in a string; anything else counts as none."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return {}
    return arguments if isinstance(arguments, dict) else {}


def _as_system(message: JsonObject) -> JsonObject:
    if message["role"] != "developer":
        return message
    return {name: value for name, value in message.items() if name != "tools"} | {"role": "system"}


def _one_system_message(messages: list[JsonObject]) -> list[JsonObject]:
    system = [message for message in messages if message["role"] == "system"]
    if len(system) < 2 and messages[0]["role"] == "system":
        return messages
    texts = [text for message in system if (text := _text(message["content"]))]
    others = [message for message in messages if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(texts)}, *others]


def _text(content: str | list[JsonObject]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)
