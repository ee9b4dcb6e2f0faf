"""The tools of a responses body as functions, which is how vLLM hands them to the chat template.

Source: vLLM 0.32, `tool_parsers/utils.py` (`get_function_tools`): functions of a namespace are named after it, a custom
tool becomes a function of one text, and the engine's own tools (search, code) are left out.
"""

import json
from typing import Any

from warmroute.openai_api.body import UnreadableBody, kind, objects
from warmroute.openai_api.prompt import JsonObject

_CUSTOM_INPUT = "input"


def function_tools(body: JsonObject) -> list[JsonObject] | None:
    """The functions in the chat endpoint's shape; None where the body has no tools. Raises UnreadableBody."""
    tools = objects(body, "tools")
    if not tools:
        return None
    return [{"type": "function", "function": _function(each)} for tool in tools for each in _flat(tool)]


def flat_name(namespace: Any, name: Any) -> str:
    """The name of a function that is called by its namespace and its name."""
    return f"{namespace}__{name}"


def custom_tool_arguments(payload: Any) -> str:
    """The arguments of a call of a custom tool, which the client gives as a text."""
    return json.dumps({_CUSTOM_INPUT: payload}, ensure_ascii=False)


def _flat(tool: JsonObject) -> list[JsonObject]:
    if kind(tool) == "function":
        return [tool]
    if kind(tool) == "custom":
        return [{"name": tool.get("name"), "description": tool.get("description"), "parameters": _custom_parameters()}]
    if kind(tool) != "namespace":
        return []
    inner = objects(tool, "tools")
    if inner is None:
        raise UnreadableBody("a namespace of tools has no `tools`")
    return [
        {**each, "name": flat_name(tool.get("name"), each.get("name"))} for each in inner if kind(each) == "function"
    ]


def _function(tool: JsonObject) -> JsonObject:
    return {name: value for name, value in tool.items() if name != "type"}


def _custom_parameters() -> JsonObject:
    text = {"type": "string", "description": "The freeform text payload for this tool."}
    return {
        "type": "object",
        "properties": {_CUSTOM_INPUT: text},
        "required": [_CUSTOM_INPUT],
        "additionalProperties": False,
    }
