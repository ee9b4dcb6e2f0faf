"""The bodies in which the same request is sent to the endpoints, and what the fields of each are called."""

import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from bench.doctor_corpus.asked import Asked, Call, JsonObject, Message, Tool


class Dialect(StrEnum):
    """The endpoints, by their paths."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    RESPONSES = "/v1/responses"
    MESSAGES = "/v1/messages"


WITH_TOOLS = (Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES)


def body(asked: Asked, dialect: Dialect, in_parts: bool = False) -> JsonObject:
    """The body, in objects of its own where something is put together. in_parts: texts stand in lists of parts."""
    return {"model": asked.model, **_WRITERS[dialect](asked, in_parts), **asked.fields}


def system_field(dialect: Dialect) -> str:
    """Where the system prompt stands."""
    return _SYSTEM[dialect]


def history_field(dialect: Dialect) -> str:
    """Where messages stand."""
    return {Dialect.COMPLETIONS: "prompt", Dialect.RESPONSES: "input"}.get(dialect, "messages")


def message_field(asked: Asked, dialect: Dialect, position: int = 0) -> str:
    """Where a message stands; in a responses body only the first may be asked for."""
    if dialect is Dialect.COMPLETIONS:
        return "prompt"
    if dialect is Dialect.RESPONSES:
        assert position == 0, "one message may become several items"
        return "input"
    behind_system = dialect is Dialect.CHAT and bool(asked.system)
    return f"messages[{position + behind_system}]"


_SYSTEM = {
    Dialect.CHAT: "messages[0]",
    Dialect.COMPLETIONS: "prompt",
    Dialect.RESPONSES: "instructions",
    Dialect.MESSAGES: "system",
}


def _chat(asked: Asked, in_parts: bool) -> JsonObject:
    system = [{"role": "system", "content": _text(asked.system, in_parts)}] if asked.system else []
    written: JsonObject = {"messages": system + [_chat_message(each, in_parts) for each in asked.messages]}
    if asked.tools:
        written["tools"] = [{"type": "function", "function": _function(tool)} for tool in asked.tools]
    if asked.documents:
        written["documents"] = [{"title": f"{at}", "text": text} for at, text in enumerate(asked.documents)]
    return written


def _chat_message(message: Message, in_parts: bool) -> JsonObject:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    written: JsonObject = {"role": message.role, "content": _text(message.text, in_parts)}
    if message.image is not None:
        image = {"type": "image_url", "image_url": {"url": message.image}}
        written["content"] = [image, {"type": "text", "text": message.text}]
    if message.reasoning is not None:
        written["reasoning_content"] = message.reasoning
    if message.calls:
        written["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": _json(call)}}
            for call in message.calls
        ]
    return written


def _function(tool: Tool) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _json(call: Call) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


def _text(text: str, in_parts: bool, kind: str = "text") -> Any:
    return [{"type": kind, "text": text}] if in_parts else text


def _messages(asked: Asked, in_parts: bool) -> JsonObject:
    written: JsonObject = {"max_tokens": 1_024}
    if asked.system:
        written["system"] = _text(asked.system, in_parts)
    if asked.tools:
        written["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in asked.tools
        ]
    written["messages"] = [_anthropic_message(each, in_parts) for each in asked.messages]
    return written


def _anthropic_message(message: Message, in_parts: bool) -> JsonObject:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
        return {"role": "user", "content": [result]}
    blocks: list[JsonObject] = []
    if message.reasoning is not None:
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": "c2lnbmVk"})
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    for call in message.calls:
        blocks.append({"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments})
    plain = not in_parts and len(blocks) == 1 and blocks[0]["type"] == "text"
    return {"role": message.role, "content": message.text if plain else blocks}


def _responses(asked: Asked, in_parts: bool) -> JsonObject:
    written: JsonObject = {"instructions": asked.system} if asked.system else {}
    first = asked.messages[0]
    if len(asked.messages) == 1 and first.image is None and not in_parts:
        written["input"] = first.text
    else:
        written["input"] = [item for message in asked.messages for item in _items(message, in_parts)]
    if asked.tools:
        written["tools"] = [{"type": "function", **_function(tool)} for tool in asked.tools]
    return written


def _items(message: Message, in_parts: bool) -> Iterator[JsonObject]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
        return
    if message.reasoning is not None:
        content = [{"type": "reasoning_text", "text": message.reasoning}]
        yield {"type": "reasoning", "summary": [], "content": content}
    if message.text:
        kind = "output_text" if message.role == "assistant" else "input_text"
        yield {"type": "message", "role": message.role, "content": _text(message.text, in_parts, kind)}
    for call in message.calls:
        yield {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": _json(call)}


def _completions(asked: Asked, in_parts: bool) -> JsonObject:
    """As programs write that have a template of their own, some as a batch of one; tools are not for this endpoint."""
    assert not asked.tools, "a completion has no tools"
    turns = [f"### {message.role.capitalize()}:\n{message.text}\n\n" for message in asked.messages]
    opening = f"### System:\n{asked.system}\n\n" if asked.system else ""
    prompt = f"{opening}{''.join(turns)}### Assistant:\n"
    return {"prompt": [prompt] if in_parts else prompt}


_WRITERS: dict[Dialect, Callable[[Asked, bool], JsonObject]] = {
    Dialect.CHAT: _chat,
    Dialect.COMPLETIONS: _completions,
    Dialect.RESPONSES: _responses,
    Dialect.MESSAGES: _messages,
}
