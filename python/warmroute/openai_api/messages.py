"""POST /v1/messages: Anthropic's dialect, turned into a conversation as vLLM turns it.

Source: vLLM 0.32, `entrypoints/anthropic/serving.py` (`to_chat_completion_request`).
"""

import json
from typing import Any

from warmroute.openai_api.body import UnreadableBody, kind, objects
from warmroute.openai_api.chat import client_options, template_options, untold_in
from warmroute.openai_api.message_tools import chat_tools
from warmroute.openai_api.prompt import ChatContent, Endpoint, JsonObject
from warmroute.openai_api.reading import Reading

# A header that one client puts before its system prompt; it differs in each request, and the engine drops it.
_BILLING_HEADER = "x-anthropic-billing-header"
# The blocks of a result that become something; the engine drops the others.
_REFERENCE = "tool_reference"


def read_messages(body: JsonObject) -> Reading:
    """The conversation of a messages body. Raises UnreadableBody."""
    given = objects(body, "messages")
    if not given:
        raise UnreadableBody("`messages` is missing or empty")
    messages = _system(body.get("system")) + [turn for message in given for turn in _turns(message)]
    effort, options = _effort(body), client_options(body)
    choice = body.get("tool_choice")
    chat = ChatContent(
        messages=messages,
        tools=chat_tools(objects(body, "tools"), given),
        template_options=template_options(options, effort),
        client_options=options,
        effort=effort,
        tool_choice=kind(choice) if isinstance(choice, dict) else None,
        endpoint=Endpoint.MESSAGES,
    )
    return Reading((chat,), untold_in(messages))


def _effort(body: JsonObject) -> Any:
    """`none` where thinking is switched off; some templates are then asked for another effort, see the renderer."""
    thinking, output = body.get("thinking"), body.get("output_config")
    if isinstance(thinking, dict) and kind(thinking) == "disabled":
        return "none"
    return output.get("effort") if isinstance(output, dict) else None


def _system(value: Any) -> list[JsonObject]:
    content = _system_text(value)
    return [{"role": "system", "content": content}] if content else []


def _system_text(value: Any) -> str:
    if value is None:
        return ""
    blocks = [value] if isinstance(value, str) else [_text_of(block) for block in _blocks(value)]
    return "".join(block for block in blocks if not block.startswith(_BILLING_HEADER))


def _text_of(block: JsonObject) -> str:
    text = block.get("text")
    return text if kind(block) == "text" and isinstance(text, str) else ""


def _blocks(value: Any) -> list[JsonObject]:
    if not isinstance(value, list) or not all(isinstance(block, dict) for block in value):
        raise UnreadableBody("the content of a message is neither text nor a list of blocks")
    return value


def _turns(message: JsonObject) -> list[JsonObject]:
    """The turns of one message: results of tools come first, each as a turn of its own."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise UnreadableBody("a message has no `role`")
    if role == "system":
        return _system(content)
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    blocks = _blocks(content)
    turn = _turn(role, blocks)
    if role != "user":
        return [turn]
    results = [result for block in blocks if kind(block) == "tool_result" for result in _result(block)]
    return [*results, turn] if "content" in turn else results


def _turn(role: str, blocks: list[JsonObject]) -> JsonObject:
    turn: JsonObject = {"role": role}
    thoughts = [block.get("thinking") for block in blocks if kind(block) == "thinking"]
    reasoning = [thought for thought in thoughts if isinstance(thought, str)]
    if reasoning:
        turn["reasoning"] = "".join(reasoning)
    calls = [_tool_call(block) for block in blocks if kind(block) == "tool_use"]
    if calls:
        turn["tool_calls"] = calls
    parts = [part for block in blocks if (part := _part(role, block)) is not None]
    if parts:
        turn["content"] = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    return turn


def _part(role: str, block: JsonObject) -> JsonObject | None:
    if kind(block) == "text" and block.get("text"):
        return {"type": "text", "text": block["text"]}
    if kind(block) == "image" and block.get("source"):
        return {"type": "image_url"}
    if kind(block) == "tool_result" and role != "user":
        # As the engine writes it: Python's own form where the content is a list of blocks.
        return {"type": "text", "text": f"Tool result: {block.get('content') or ''}"}
    return None


def _tool_call(block: JsonObject) -> JsonObject:
    function = {"name": block.get("name") or "", "arguments": json.dumps(block.get("input") or {})}
    return {"id": block.get("id") or "", "type": "function", "function": function}


def _result(block: JsonObject) -> list[JsonObject]:
    """The result, then its images as a turn of the user, then the tools that it refers to."""
    content = block.get("content")
    items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    result = content if isinstance(content, str) else "\n".join(_texts(items))
    call_id = block.get("tool_use_id") or ""
    turns: list[JsonObject] = [{"role": "tool", "tool_call_id": call_id, "content": result}]
    images = [{"type": "image_url"} for item in items if kind(item) == "image"]
    if images:
        turns.append({"role": "user", "content": images})
    names = [item.get("tool_name") or item.get("name") for item in items if kind(item) == _REFERENCE]
    references = [{"type": _REFERENCE, "name": name} for name in names if name]
    if references:
        turns.append({"role": "tool", "tool_call_id": call_id, "content": references})
    return turns


def _texts(items: list[JsonObject]) -> list[str]:
    return [str(item.get("text", "")) for item in items if kind(item) == "text"]
