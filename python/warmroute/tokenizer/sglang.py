"""A conversation as SGLang hands it to the chat template, and what it makes of the answer.

Source: SGLang 0.5.23, `entrypoints/openai/serving_chat.py` (`_process_messages`, `_apply_jinja_template`), the request
models of `entrypoints/openai/protocol.py` and `parser/jinja_template_utils.py`. Models that SGLang encodes with code of
its own or with one of its named conversation templates are not covered.
"""

from typing import Any

import msgspec

from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, JsonObject
from warmroute.tokenizer.sglang_schema import is_standard

_ROLES = frozenset({"system", "assistant", "tool", "function", "developer", "latest_reminder", "root"})
_TOOL_ROLES = frozenset({"root", "system", "developer"})
# The fields of a message in the order of the request model; those of a message of the user are its role and content.
_FIELDS = ("tool_call_id", "name", "phase", "reasoning_content")
_MEDIA = {"image_url": "image", "video_url": "video", "audio_url": "audio", "input_audio": "audio"}
MEDIA = frozenset(_MEDIA.values())
_EFFORTS = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"})


def sglang_messages(chat: ChatContent, takes_parts: bool) -> list[JsonObject]:
    """The messages as the template sees them, the last of the assistant included. Raises TemplateError."""
    return [_message(message, takes_parts) for message in chat.messages]


def without_prefix(messages: list[JsonObject], continued: bool) -> tuple[list[JsonObject], str]:
    """The messages to render, and the text with which the answer begins.

    A last message of the assistant is taken off where it is to be continued; where not, it becomes the user's.
    """
    last = messages[-1]
    if last["role"] != "assistant" or not isinstance(last["content"], str):
        return messages, ""
    if continued:
        return messages[:-1], last["content"]
    return [*messages[:-1], {"role": "user", "content": last["content"]}], ""


def sglang_tools(chat: ChatContent) -> list[JsonObject] | None:
    """The tools that the template is told of: of a named choice that one, of `none` none. Raises TemplateError."""
    if not chat.tools or chat.tool_choice == "none":
        return None
    tools = [_tool(tool) for tool in chat.tools]
    if not isinstance(chat.tool_choice, dict):
        return tools
    function = chat.tool_choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return [tool for tool in tools if tool["function"]["name"] == name] or None


def bare_tools(tools: list[JsonObject] | None) -> list[JsonObject] | None:
    """The tools without their wrapping, for templates that fail on it."""
    return [tool["function"] for tool in tools] if tools else None


def sglang_options(chat: ChatContent) -> JsonObject:
    """The variables that come from the client. Raises TemplateError for an effort that the engine refuses."""
    options = dict(chat.client_options)
    effort = None if chat.effort is True else _effort(chat.effort)
    if chat.effort is not None:
        thinks = effort != "none"
        options = {"thinking": thinks, "enable_thinking": thinks, **options}
    return options if effort is None else {"reasoning_effort": effort, **options}


def _effort(effort: Any) -> str | float | None:
    if effort is None or (isinstance(effort, str) and effort in _EFFORTS):
        return effort
    try:
        return float(effort)
    except (TypeError, ValueError) as exc:
        raise TemplateError("there is no such reasoning effort") from exc


def _message(message: JsonObject, takes_parts: bool) -> JsonObject:
    role = message.get("role")
    if role == "user":
        return {"role": role, "content": _content(role, message.get("content"), takes_parts)}
    role = role.lower() if isinstance(role, str) else ""
    if role not in _ROLES:
        raise TemplateError("a message has no role that the engine knows")
    seen: JsonObject = {"role": role, "content": _content(role, message.get("content"), takes_parts)}
    seen |= {name: message[name] for name in _FIELDS if message.get(name) is not None}
    if message.get("tool_calls") is not None:
        seen["tool_calls"] = [_tool_call(call, role) for call in _objects(message["tool_calls"], "tool_calls")]
    if message.get("tools") is not None:
        seen["tools"] = [_tool(tool) for tool in _objects(message["tools"], "tools")]
    return seen | {name: message[name] for name in ("prefix",) if message.get(name) is not None}


def _objects(value: Any, name: str) -> list[JsonObject]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise TemplateError(f"`{name}` is not a list of objects")
    return value


def _content(role: str, content: Any, takes_parts: bool) -> str | list[JsonObject]:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [_part(part) for part in _objects(content, "content")]
    if not takes_parts:
        return " ".join(part["text"] for part in parts if part["type"] == "text")
    # Thoughts within a content are read and not handed on.
    parts = [part for part in parts if part["type"] != "thinking"]
    if role == "tool" and all(part["type"] == "text" for part in parts):
        return " ".join(part["text"] for part in parts)
    return parts


def _part(part: JsonObject) -> JsonObject:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind in ("thinking", "reasoning"):
        return {"type": "thinking"}
    if kind == "tool_reference" and isinstance(part.get("name"), str):
        return {"type": kind, "name": part["name"]}
    if isinstance(kind, str) and kind in _MEDIA:
        return {"type": _MEDIA[kind]}
    raise TemplateError("a part of a content is of a kind that the engine refuses")


def _tool_call(call: JsonObject, role: str) -> JsonObject:
    function = call.get("function")
    if not isinstance(function, dict):
        raise TemplateError("a tool call has no function")
    arguments = function.get("arguments")
    if role == "assistant" and isinstance(arguments, str):
        arguments = _arguments(arguments)
    named = {"name": function.get("name"), "arguments": arguments}
    return {"id": call.get("id"), "index": call.get("index"), "type": "function", "function": named}


def _arguments(text: str) -> JsonObject:
    try:
        arguments = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as exc:
        raise TemplateError("the arguments of a tool call are not JSON") from exc
    if not isinstance(arguments, dict):
        raise TemplateError("the arguments of a tool call are not an object")
    return arguments


def _tool(tool: JsonObject) -> JsonObject:
    """The client's keys in the client's order, the model's others after them."""
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise TemplateError("a tool has no function with a name")
    deferred = tool.get("defer_loading")
    if deferred is not None and function.get("defer_loading") is None:
        function = {**function, "defer_loading": deferred}
    known: JsonObject = {name: function.get(name) for name in ("description", "name", "parameters")}
    known |= {name: function[name] for name in ("strict", "defer_loading") if function.get(name) is not None}
    if not is_standard(known["parameters"]):
        raise TemplateError("the engine rewrites the types in the parameters of a tool")
    ordered = {name: known[name] for name in function if name in known}
    kind = tool.get("type", "function")
    return {"type": kind, "function": ordered | known, "defer_loading": deferred}
