"""POST /v1/responses: `instructions` and `input` items, turned into a conversation as vLLM turns them.

Source: vLLM 0.32, `entrypoints/openai/responses/utils.py` (`construct_input_messages`, `construct_tool_dicts`) and
`protocol.py` (`input_item_parsing`).
"""

import json
from typing import Any

from warmroute.openai_api.body import UnreadableBody, kind, text
from warmroute.openai_api.chat import client_options, template_options, untold_in
from warmroute.openai_api.prompt import ChatContent, Endpoint, JsonObject, Untold
from warmroute.openai_api.reading import Reading
from warmroute.openai_api.response_tools import custom_tool_arguments, flat_name, function_tools

_UNFINISHED = ("in_progress", "incomplete")
_CALLS = ("function_call", "custom_tool_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")


def read_responses(body: JsonObject) -> Reading:
    """The conversation of a responses body. Raises UnreadableBody."""
    # All three are kept on the worker or elsewhere; the body holds only what is new.
    if any(body.get(name) is not None for name in ("previous_response_id", "conversation", "prompt")):
        return Reading.nothing(Untold.KEPT_STATE)
    items = _items(body.get("input"))
    unfinished = _is_unfinished(items[-1])
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    options = client_options(body)
    messages = _instructions(body) + _messages(items)
    chat = ChatContent(
        messages=messages,
        tools=function_tools(body),
        add_generation_prompt=not unfinished,
        continue_final_message=unfinished,
        # This endpoint has no such field, and vLLM 0.32 leaves its tokenizer's default.
        add_special_tokens=True,
        template_options=template_options(options, effort),
        client_options=options,
        effort=effort,
        tool_choice=body.get("tool_choice"),
        endpoint=Endpoint.RESPONSES,
    )
    return Reading((chat,), untold_in(messages))


def _instructions(body: JsonObject) -> list[JsonObject]:
    instructions = text(body, "instructions")
    return [{"role": "system", "content": instructions}] if instructions else []


def _items(value: Any) -> list[JsonObject]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise UnreadableBody("`input` is neither a string nor a list of items")
    return value


def _is_unfinished(last: JsonObject) -> bool:
    return kind(last) in ("", "message", "reasoning") and last.get("status") in _UNFINISHED


def _messages(items: list[JsonObject]) -> list[JsonObject]:
    messages: list[JsonObject] = []
    for item in items:
        _append(messages, item)
    return messages


def _append(messages: list[JsonObject], item: JsonObject) -> None:
    """One turn of the assistant may span several items: its reasoning, its text, its calls."""
    message = _message(item)
    field = next((name for name in ("tool_calls", "reasoning", "content") if name in message), "content")
    last = messages[-1] if messages and messages[-1].get("role") == "assistant" else None
    if message["role"] != "assistant" or last is None or _is_whole(item):
        # Written to below, so it must not be the client's own object.
        messages.append(dict(message))
    elif field == "tool_calls":
        last["tool_calls"] = [*(last.get("tool_calls") or []), *message["tool_calls"]]
    elif last.get(field) is None:
        last[field] = message[field]
    else:
        messages.append(message)


def _is_whole(item: JsonObject) -> bool:
    """A message of the assistant without a text is left as the client wrote it."""
    return kind(item) in ("", "message") and _assistant_text(item.get("content")) is None


def _message(item: JsonObject) -> JsonObject:
    if kind(item) in _CALLS:
        return {"role": "assistant", "tool_calls": [_tool_call(item)]}
    if kind(item) in _RESULTS:
        return {"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
    if kind(item) == "reasoning":
        return {"role": "assistant", "reasoning": _reasoning(item)}
    if kind(item) not in ("", "message") or not isinstance(item.get("role"), str):
        raise UnreadableBody("`input` holds an item of a kind that cannot be rendered")
    if item["role"] != "assistant" or _is_whole(item):
        return item
    return {"role": "assistant", "content": _assistant_text(item.get("content"))}


def _reasoning(item: JsonObject) -> str:
    if item.get("encrypted_content"):
        raise UnreadableBody("`input` holds encrypted reasoning")
    return _first_text(item.get("content")) or _first_text(item.get("summary"))


def _tool_call(item: JsonObject) -> JsonObject:
    name, arguments = item.get("name"), item.get("arguments")
    if kind(item) == "custom_tool_call":
        arguments = custom_tool_arguments(item.get("input") or "")
    elif item.get("namespace"):
        name = flat_name(item["namespace"], name)
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return {"id": item.get("call_id"), "function": {"name": name, "arguments": arguments}, "type": "function"}


def _assistant_text(content: Any) -> str | None:
    """A text, or that of the first part alone, which is all that the engine renders."""
    if isinstance(content, list):
        content = content[0].get("text") if content and isinstance(content[0], dict) else None
    return content if isinstance(content, str) else None


def _first_text(parts: Any) -> str:
    if isinstance(parts, list) and parts and isinstance(parts[0], dict) and isinstance(parts[0].get("text"), str):
        return str(parts[0]["text"])
    return ""
