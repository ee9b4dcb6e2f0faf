"""POST /v1/responses: `instructions` and `input` items, turned into a conversation as vLLM turns them.

Source: vLLM 0.32, `entrypoints/openai/responses/utils.py` (`construct_input_messages`, `construct_tool_dicts`).
"""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, kind, objects, text
from warmroute.openai_api.chat import template_options, told_part
from warmroute.openai_api.prompt import ChatContent, JsonObject
from warmroute.openai_api.reading import UNTOLD, Reading

_UNFINISHED = ("in_progress", "incomplete")


def read_responses(body: JsonObject) -> Reading:
    """The conversation of a responses body. Raises UnreadableBody."""
    # Both are kept on the worker; the body holds only what is new.
    if body.get("previous_response_id") is not None or body.get("conversation") is not None:
        return UNTOLD
    items = _items(body.get("input"))
    unfinished = _is_unfinished(items)
    reasoning = body.get("reasoning")
    chat = ChatContent(
        messages=_instructions(body) + _messages(items),
        tools=_tools(body),
        add_generation_prompt=not unfinished,
        continue_final_message=unfinished,
        # Pydantic's default for this endpoint: special tokens stand in the template.
        add_special_tokens=False,
        template_options=template_options(body, reasoning.get("effort") if isinstance(reasoning, dict) else None),
    )
    return told_part(chat)


def _instructions(body: JsonObject) -> list[JsonObject]:
    instructions = text(body, "instructions")
    return [{"role": "system", "content": instructions}] if instructions else []


def _items(value: Any) -> list[JsonObject]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise UnreadableBody("`input` is neither a string nor a list of items")
    return value


def _is_unfinished(items: list[JsonObject]) -> bool:
    last = items[-1]
    return kind(last) in ("", "message", "reasoning") and last.get("status") in _UNFINISHED


def _tools(body: JsonObject) -> list[JsonObject] | None:
    """Function tools are flat here; the engine's own tools (search, code) never reach the template."""
    functions = [tool for tool in objects(body, "tools") or [] if kind(tool) == "function"]
    return [
        {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
        for tool in functions
    ] or None


def _messages(items: list[JsonObject]) -> list[JsonObject]:
    messages: list[JsonObject] = []
    for item in items:
        _append(messages, _message(item))
    return messages


def _append(messages: list[JsonObject], message: JsonObject) -> None:
    """One turn of the assistant may span several items: its reasoning, its text, its calls."""
    if messages and messages[-1]["role"] == "assistant" and message["role"] == "assistant":
        last = messages[-1]
        if "tool_calls" in message:
            last.setdefault("tool_calls", []).extend(message["tool_calls"])
            return
        field = "reasoning" if "reasoning" in message else "content"
        if last.get(field) is None:
            last[field] = message[field]
            return
    messages.append(message)


def _message(item: JsonObject) -> JsonObject:
    if kind(item) == "function_call":
        return {"role": "assistant", "tool_calls": [_tool_call(item)]}
    if kind(item) == "function_call_output":
        return {"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
    if kind(item) == "reasoning":
        return {"role": "assistant", "reasoning": _first_text(item.get("content")) or _first_text(item.get("summary"))}
    if kind(item) not in ("", "message") or not isinstance(item.get("role"), str):
        raise UnreadableBody("`input` holds an item of a kind that cannot be rendered")
    if item["role"] == "assistant" and isinstance(item.get("content"), list):
        return {"role": "assistant", "content": _first_text(item["content"])}
    return {"role": item["role"], "content": item.get("content")}


def _tool_call(item: JsonObject) -> JsonObject:
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "function": function, "type": "function"}


def _first_text(parts: Any) -> str:
    """The text of the first part alone, which is all that the engine renders."""
    if isinstance(parts, list) and parts and isinstance(parts[0], dict) and isinstance(parts[0].get("text"), str):
        return str(parts[0]["text"])
    return ""
