"""The tools of a messages body in the chat endpoint's shape, as they are in effect at the end of the conversation.

Source: vLLM 0.32, `entrypoints/anthropic/serving.py` (`_resolve_tools`, `_convert_tools`).
"""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, kind
from warmroute.openai_api.prompt import JsonObject

_CHANGES = ("tool_addition", "tool_removal")


def chat_tools(tools: list[JsonObject] | None, messages: list[JsonObject]) -> list[JsonObject] | None:
    """The tools, with those added that the conversation adds and without those it removes. Raises UnreadableBody."""
    changes = [block for message in messages for block in _blocks(message) if kind(block) in _CHANGES]
    known = tools if not changes else _changed(tools or [], changes)
    return None if known is None else [{"type": "function", "function": _function(tool)} for tool in known]


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _changed(tools: list[JsonObject], changes: list[JsonObject]) -> list[JsonObject]:
    known = {_name(tool): tool for tool in tools}
    removed: set[str] = set()
    for block in changes:
        tool = block.get("tool")
        if not isinstance(tool, dict):
            raise UnreadableBody("a change of the tools names none")
        added = tool.get("definition")
        name = _name(added if isinstance(added, dict) else tool)
        if isinstance(added, dict):
            known[name] = added
        elif name not in known:
            raise UnreadableBody("a change of the tools names one that is not declared")
        elif kind(block) == "tool_addition":
            known[name] = {**known[name], "defer_loading": None}
        removed = removed | {name} if kind(block) == "tool_removal" else removed - {name}
    return [tool for name, tool in known.items() if name not in removed]


def _name(tool: JsonObject) -> str:
    name = tool.get("name")
    if not isinstance(name, str):
        raise UnreadableBody("a tool has no name")
    return name


def _function(tool: JsonObject) -> JsonObject:
    function = {"name": tool.get("name"), "description": tool.get("description")}
    function["parameters"] = _schema(tool.get("input_schema"))
    return function | {name: tool[name] for name in ("strict", "defer_loading") if tool.get(name) is not None}


def _schema(schema: Any) -> Any:
    return {**schema, "type": "object"} if isinstance(schema, dict) and "type" not in schema else schema
