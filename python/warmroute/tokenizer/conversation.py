"""A conversation in the shape in which vLLM hands it to the chat template.

An engine does not hand over the client's messages: it drops what it does not know, writes out what was left out, and
decodes the arguments of tool calls. Rendering the client's own JSON would give other tokens, and no error anywhere.
Source: vLLM 0.32, `renderers/chat_utils.py` (`_parse_chat_message_content`, `_postprocess_messages`),
`renderers/hf.py` (`_consolidate_system_messages`) and the request models of the chat endpoint.
"""

import json
from typing import Any

from warmroute.errors import TemplateError
from warmroute.openai_api import Endpoint, JsonObject

_TEXT_FIELDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
# What a part that is not text is called before the template.
_MODALITIES = {
    "image_url": "image",
    "input_image": "image",
    "image_embeds": "image",
    "image_pil": "image",
    "audio_url": "audio",
    "input_audio": "audio",
    "audio_embeds": "audio",
    "video_url": "video",
    "video_embeds": "video",
}
MEDIA = frozenset(_MODALITIES.values())
# The fields of a part that the engine reads; others reach the template beside the text.
_PART_FIELDS = frozenset(
    {"audio_embeds", "audio_url", "closed", "data", "file", "image_embeds", "image_pil", "image_url", "input_audio"}
    | {"name", "prompt_cache_breakpoint", "refusal", "text", "thinking", "type", "uuid", "video_embeds", "video_url"}
)
# One client's header before its system prompt: it differs in each request, so the engine drops that line.
_BILLING_HEADER = "x-anthropic-billing-header"


def engine_messages(
    messages: list[JsonObject],
    takes_parts: bool,
    knows_developer: bool,
    endpoint: Endpoint = Endpoint.CHAT,
    placeholder: str = "<image>",
) -> list[JsonObject]:
    """The messages as the template sees them.

    `takes_parts`: contents are lists of parts, not texts. `knows_developer`: the template has a developer role;
    otherwise such messages become system messages, and all of these one. `endpoint`: where they came in. Where contents
    are texts, `placeholder` stands for each image of a message, before its text. Raises TemplateError.
    """
    # The request model of the chat endpoint writes the keys of a call in an order of its own.
    in_order = endpoint is not Endpoint.RESPONSES
    seen = [_message(message, takes_parts, placeholder, in_order) for message in messages]
    if knows_developer or all(message["role"] != "developer" for message in seen):
        return seen
    return _one_system_message([_as_system(message) for message in seen])


def with_system_first(messages: list[JsonObject]) -> list[JsonObject]:
    """The messages with all of the system joined in one; vLLM does so for a messages body where the template wants it.

    All of them come from a messages body, so that their contents are texts.
    """
    system = [message["content"] for message in messages if message.get("role") == "system"]
    others = [message for message in messages if message.get("role") != "system"]
    return [{"role": "system", "content": "".join(system)}, *others] if system else others


def engine_tools(tools: list[JsonObject] | None) -> list[JsonObject] | None:
    """The tools as the template sees them: keys in the order of the engine's model, absent ones as null."""
    return None if tools is None else [_tool(tool) for tool in tools]


def _tool(tool: JsonObject) -> JsonObject:
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise TemplateError("a tool has no function with a name")
    seen = {name: function.get(name) for name in ("name", "description", "parameters")}
    deferred = tool.get("defer_loading")
    function = function if deferred is None else {"defer_loading": deferred, **_given(function)}
    seen |= {name: function[name] for name in ("strict", "defer_loading") if function.get(name) is not None}
    outer = {} if deferred is None else {"defer_loading": deferred}
    return {"type": "function", "function": seen, **outer}


def _given(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


def _message(message: JsonObject, takes_parts: bool, placeholder: str, calls_in_order: bool) -> JsonObject:
    role = message.get("role")
    if not isinstance(role, str):
        raise TemplateError("a message has no role")
    seen: JsonObject = {"role": role, "content": _content(role, message.get("content"), takes_parts, placeholder)}
    if role == "assistant":
        seen |= _assistant_fields(message, calls_in_order)
    elif role == "tool" and "tool_call_id" in message:
        seen["tool_call_id"] = message["tool_call_id"]
    elif role == "developer":
        seen["tools"] = message.get("tools")
    for name in ("name", "task"):
        if isinstance(message.get(name), str):
            seen[name] = message[name]
    return seen


def _content(role: str, content: Any, takes_parts: bool, placeholder: str) -> str | list[JsonObject]:
    if isinstance(content, str) and not content.startswith(_BILLING_HEADER):
        # Most contents are, and a conversation may have hundreds.
        return [{"type": "text", "text": content}] if takes_parts and role != "tool" else content
    given = [content] if isinstance(content, str) else content or []
    if not isinstance(given, list):
        raise TemplateError("the content of a message is neither text nor a list of parts")
    if role == "system":
        given = [part for raw in given if (part := _without_billing_header(raw)) is not None]
    parts = [part for raw in given if (part := _part(raw)) is not None]
    only_text = all(part["type"] == "text" for part in parts)
    if takes_parts and not (role == "tool" and only_text):
        return parts
    images = [placeholder for part in parts if part["type"] in MEDIA]
    texts = [part["text"] if part["type"] == "text" else part["name"] for part in parts if part["type"] not in MEDIA]
    said = "\n".join(text for text in texts if text)
    return "\n".join([*images, said] if said or not images else images)


def _part(part: Any) -> JsonObject | None:
    """A part of a content; None for one that is there but empty."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise TemplateError("a part of a content is neither text nor an object")
    kind = _kind(part)
    if kind in _MODALITIES:
        return {"type": _MODALITIES[kind], **_other_fields(part)}
    if kind == "tool_reference" and isinstance(part.get("name"), str):
        return {"type": "tool_reference", "name": part["name"]}
    text = part.get(_TEXT_FIELDS[kind]) if kind in _TEXT_FIELDS else None
    if text is None and kind in ("text", "refusal"):
        return None
    if not isinstance(text, str):
        raise TemplateError(f"a part of kind {kind!r} cannot be told")
    return {"type": "text", "text": text, **_other_fields(part)}


def _kind(part: JsonObject) -> str:
    """The kind of a part; one that only has the field of an image is an image."""
    kind = part.get("type")
    if kind is None or part.get("uuid") is not None:
        kind = next((name for name in _MODALITIES if name in part), kind)
    if not isinstance(kind, str):
        raise TemplateError("a part of a content has no type")
    return kind


def _other_fields(part: JsonObject) -> JsonObject:
    return {name: value for name, value in part.items() if name not in _PART_FIELDS}


def _without_billing_header(part: Any) -> Any:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part
    if not isinstance(text, str) or not text.startswith(_BILLING_HEADER):
        return part
    rest = text.partition("\n")[2]
    if not rest:
        return None
    return {**part, "text": rest} if isinstance(part, dict) else rest


def _assistant_fields(message: JsonObject, calls_in_order: bool) -> JsonObject:
    fields: JsonObject = {}
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise TemplateError("`tool_calls` is not a list")
        fields["tool_calls"] = [_tool_call(call, calls_in_order) for call in calls]
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    if reasoning is not None:
        # Templates ask for the one name or the other.
        fields |= {"reasoning": reasoning, "reasoning_content": reasoning}
    return fields


def _tool_call(call: Any, in_order: bool) -> JsonObject:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise TemplateError("a tool call has no function")
    if in_order:
        call, function = _in_order(call, ("id", "function", "type")), _in_order(function, ("arguments", "name"))
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _in_order(fields: JsonObject, first: tuple[str, ...]) -> JsonObject:
    return {name: fields[name] for name in first if name in fields} | fields


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
