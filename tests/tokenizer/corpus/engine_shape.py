"""What an engine hands to transformers for a body of the corpus, written down apart from the package.

A second reading of the same rules (vLLM 0.32's), as short as the corpus allows: it knows nothing of images.
"""

import json
from typing import Any

from tokenizer.corpus.conversations import Body, Message
from tokenizer.corpus.families import Family


def template_arguments(body: Body, family: Family) -> dict[str, Any]:
    """The arguments of `apply_chat_template` beside the conversation."""
    options = dict(body.get("chat_template_kwargs", {}))
    effort = body.get("reasoning_effort")
    if effort is not None:
        options = {"enable_thinking": effort != "none", **options, "reasoning_effort": effort}
    tools = body.get("tools")
    known = {
        "tools": tools and [_tool(tool["function"]) for tool in tools],
        "documents": body.get("documents"),
        "add_generation_prompt": body.get("add_generation_prompt", True),
        "continue_final_message": body.get("continue_final_message", False),
    }
    if "chat_template" in body:
        known["chat_template"] = _named(body["chat_template"], family)
    return {**options, **known}


def _named(name: str, family: Family) -> str:
    """Engines take the name of one of the model's own templates; what else is said there would be the client's own."""
    if name not in family.template_texts():
        raise ValueError(f"a template of the client's own: {name}")
    return name


def conversation(body: Body, family: Family) -> list[Message]:
    """The messages, in the shape that the family's template gets them."""
    messages = [_message(message, family.takes_parts) for message in body["messages"]]
    if family.knows_developer or not any(message["role"] == "developer" for message in messages):
        return messages
    told = [message["content"] for message in messages if message["role"] in ("system", "developer")]
    rest = [message for message in messages if message["role"] not in ("system", "developer")]
    if len(told) == 1 and messages[0]["role"] == "developer":
        return [{"role": "system", "content": told[0]}, *rest]
    flat = [text if isinstance(text, str) else "\n".join(part["text"] for part in text) for text in told]
    return [{"role": "system", "content": "\n\n".join(text for text in flat if text)}, *rest]


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {key: function.get(key) for key in ("name", "description", "parameters")},
    }


def _message(message: Message, takes_parts: bool) -> Message:
    role = message["role"]
    shaped: Message = {"role": role, "content": _content(message, takes_parts)}
    if isinstance(message.get("name"), str):
        shaped["name"] = message["name"]
    if role == "tool":
        shaped["tool_call_id"] = message["tool_call_id"]
    if role != "assistant":
        return shaped
    if message.get("tool_calls"):
        shaped["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    thought = message.get("reasoning", message.get("reasoning_content"))
    return shaped if thought is None else {**shaped, "reasoning": thought, "reasoning_content": thought}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    """In the order of the fields of the engine's request model, which a template that writes JSON shows."""
    function = {"arguments": json.loads(call["function"]["arguments"]), "name": call["function"]["name"]}
    return {"id": call["id"], "function": function, "type": call["type"]}


def _content(message: Message, takes_parts: bool) -> Any:
    content = message.get("content")
    if content is None:
        content = []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    texts = [part.get("text", part.get("refusal")) for part in content]
    if takes_parts and message["role"] != "tool":
        return [{"type": "text", "text": text} for text in texts]
    return "\n".join(text for text in texts if text)
