"""POST /v1/chat/completions: a conversation, its tools and what the client hands to the chat template."""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, flag, kind, objects, text
from warmroute.openai_api.prompt import ChatContent, JsonObject
from warmroute.openai_api.reading import UNTOLD, Reading

# The parts of a message that become text; every other kind (an image, audio, a video) becomes tokens of its own making.
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", "thinking", "tool_reference"})


def read_chat(body: JsonObject) -> Reading:
    """The conversation of a chat body. Raises UnreadableBody."""
    messages = objects(body, "messages")
    if not messages:
        raise UnreadableBody("`messages` is missing or empty")
    if body.get("truncate_prompt_tokens") is not None:
        return UNTOLD
    chat = ChatContent(
        messages=[_with_calls_in_order(message) for message in messages],
        tools=objects(body, "tools"),
        documents=objects(body, "documents"),
        chat_template=text(body, "chat_template"),
        add_generation_prompt=flag(body, "add_generation_prompt", True),
        continue_final_message=flag(body, "continue_final_message", False),
        add_special_tokens=flag(body, "add_special_tokens", False),
        template_options=template_options(body, body.get("reasoning_effort")),
    )
    return told_part(chat)


def _with_calls_in_order(message: JsonObject) -> JsonObject:
    """The engines' request models write the keys of a call in an order of their own, and some templates show it."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        return message
    return {**message, "tool_calls": [_call_in_order(call) for call in calls]}


def _call_in_order(call: JsonObject) -> JsonObject:
    ordered = _in_order(call, ("id", "function", "type"))
    if isinstance(call.get("function"), dict):
        ordered["function"] = _in_order(call["function"], ("arguments", "name"))
    return ordered


def _in_order(fields: JsonObject, first: tuple[str, ...]) -> JsonObject:
    return {name: fields[name] for name in first if name in fields} | fields


def template_options(body: JsonObject, reasoning_effort: Any) -> JsonObject:
    """What the client adds to the template's variables; as in vLLM `reasoning_effort` also sets thinking."""
    options = body.get("chat_template_kwargs")
    options = dict(options) if isinstance(options, dict) else {}
    if isinstance(reasoning_effort, str):
        options.setdefault("enable_thinking", reasoning_effort != "none")
        options["reasoning_effort"] = reasoning_effort
    return options


def told_part(chat: ChatContent) -> Reading:
    """The conversation up to its first message with an image or the like.

    What stands before that message is a true prefix of what the engine sees, so a shared system prompt still counts.
    """
    told = next((i for i, message in enumerate(chat.messages) if not _is_text(message)), None)
    if told is None:
        return Reading((chat,))
    if told == 0:
        return UNTOLD
    head = ChatContent(
        messages=chat.messages[:told],
        tools=chat.tools,
        documents=chat.documents,
        chat_template=chat.chat_template,
        add_generation_prompt=False,
        add_special_tokens=chat.add_special_tokens,
        template_options=chat.template_options,
    )
    return Reading((head,), exact=False)


def _is_text(message: JsonObject) -> bool:
    content = message.get("content")
    if content is None or isinstance(content, str):
        return True
    if not isinstance(content, list):
        raise UnreadableBody("the content of a message is neither text nor a list of parts")
    return all(isinstance(part, str) or _is_text_part(part) for part in content)


def _is_text_part(part: Any) -> bool:
    if not isinstance(part, dict):
        raise UnreadableBody("a part of a message is neither text nor an object")
    return kind(part) in _TEXT_PARTS
