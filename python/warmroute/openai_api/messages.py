"""POST /v1/messages: Anthropic's dialect, turned into a conversation as vLLM turns it.

Source: vLLM 0.32, `entrypoints/anthropic/serving.py` (`to_chat_completion_request`).
"""

import json
from typing import Any

from warmroute.openai_api.body import UnreadableBody, kind, objects
from warmroute.openai_api.chat import template_options, told_part
from warmroute.openai_api.prompt import ChatContent, JsonObject
from warmroute.openai_api.reading import Reading

# A header that one client puts before its system prompt; it differs in each request, and the engine drops it.
_BILLING_HEADER = "x-anthropic-billing-header"


def read_messages(body: JsonObject) -> Reading:
    """The conversation of a messages body. Raises UnreadableBody."""
    messages = objects(body, "messages")
    if not messages:
        raise UnreadableBody("`messages` is missing or empty")
    chat = ChatContent(
        messages=_system(body.get("system")) + [turn for message in messages for turn in _turns(message)],
        tools=_tools(objects(body, "tools")),
        template_options=template_options(body, _effort(body)),
    )
    return told_part(chat)


def _effort(body: JsonObject) -> Any:
    thinking, output = body.get("thinking"), body.get("output_config")
    if isinstance(thinking, dict) and kind(thinking) == "disabled":
        return "none"
    return output.get("effort") if isinstance(output, dict) else None


def _tools(tools: list[JsonObject] | None) -> list[JsonObject] | None:
    if tools is None:
        return None
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def _function(tool: JsonObject) -> JsonObject:
    function = {"name": tool.get("name"), "description": tool.get("description")}
    schema = tool.get("input_schema")
    if isinstance(schema, dict) and "type" not in schema:
        schema = {**schema, "type": "object"}
    function["parameters"] = schema
    if tool.get("strict") is not None:
        function["strict"] = tool["strict"]
    return function


def _system(value: Any) -> list[JsonObject]:
    content = _system_text(value)
    return [{"role": "system", "content": content}] if content else []


def _system_text(value: Any) -> str:
    if value is None:
        return ""
    blocks = [value] if isinstance(value, str) else [block.get("text") or "" for block in _blocks(value)]
    return "".join(block for block in blocks if isinstance(block, str) and not block.startswith(_BILLING_HEADER))


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
    reasoning = [block["thinking"] for block in blocks if isinstance(block.get("thinking"), str)]
    if reasoning:
        turn["reasoning"] = "".join(reasoning)
    calls = [_tool_call(block) for block in blocks if kind(block) == "tool_use"]
    if calls:
        turn["tool_calls"] = calls
    parts = [part for block in blocks if (part := _part(block)) is not None]
    if parts:
        turn["content"] = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    return turn


def _part(block: JsonObject) -> JsonObject | None:
    if kind(block) == "text" and block.get("text"):
        return {"type": "text", "text": block["text"]}
    if kind(block) == "image":
        return {"type": "image_url"}
    return None


def _tool_call(block: JsonObject) -> JsonObject:
    function = {"arguments": json.dumps(block.get("input") or {}), "name": block.get("name") or ""}
    return {"id": block.get("id") or "", "function": function, "type": "function"}


def _result(block: JsonObject) -> list[JsonObject]:
    content = block.get("content")
    items = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
    result = content if isinstance(content, str) else "\n".join(_texts(items))
    turn = {"role": "tool", "tool_call_id": block.get("tool_use_id") or "", "content": result}
    images = [{"type": "image_url"} for item in items if kind(item) == "image"]
    return [turn, {"role": "user", "content": images}] if images else [turn]


def _texts(items: list[JsonObject]) -> list[str]:
    return [str(item.get("text", "")) for item in items if kind(item) == "text"]
