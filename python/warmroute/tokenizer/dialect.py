"""Whose rendering of a conversation is imitated: the same messages become other text in each engine."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Endpoint, JsonObject
from warmroute.tokenizer.assets import DEFAULT_TEMPLATE
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.conversation import MEDIA, engine_messages, engine_tools, with_system_first
from warmroute.tokenizer.engine_traits import effort_without_thinking, merges_inline_system, takes_parts_in_sglang
from warmroute.tokenizer.sglang import bare_tools, sglang_messages, sglang_options, sglang_tools, without_prefix
from warmroute.tokenizer.told_prefix import MARK, told_prefix

_TOOL_TEMPLATE = "tool_use"
_MARKED_PART = {"type": "text", "text": MARK}

Messages = list[JsonObject]


class Dialect(StrEnum):
    """The engine whose way of reading a conversation is followed."""

    VLLM = "vllm"
    SGLANG = "sglang"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a conversation, and how the engine turns it into ids.

    `complete` is False where `text` is only a true prefix of what the engine will see: its last characters may then
    share a token with what follows. `add_special_tokens`: whether the engine lets its tokenizer add some to `text`.
    `tail` is text that the engine encodes on its own, without special tokens, and puts after it.
    """

    text: str
    complete: bool = True
    add_special_tokens: bool = False
    tail: str = ""


def render(
    chat: ChatContent, template: ChatTemplate, special_tokens: Mapping[str, Any], dialect: Dialect = Dialect.VLLM
) -> Rendered:
    """What an engine makes of `chat` with its model's `template`. Raises TemplateError."""
    renders = _render_as_sglang if dialect is Dialect.SGLANG else _render_as_vllm
    return renders(chat, template, special_tokens)


def template_name(chat: ChatContent, names: Collection[str], dialect: Dialect = Dialect.VLLM) -> str:
    """Which of the model's templates, `names` in their order, an engine takes where the client names none."""
    if dialect is Dialect.SGLANG:
        # The first one, whatever the request; a model that has a default one names it first.
        return DEFAULT_TEMPLATE if DEFAULT_TEMPLATE in names else next(iter(names), DEFAULT_TEMPLATE)
    return _TOOL_TEMPLATE if chat.tools is not None and _TOOL_TEMPLATE in names else DEFAULT_TEMPLATE


def _render_as_vllm(chat: ChatContent, template: ChatTemplate, special_tokens: Mapping[str, Any]) -> Rendered:
    variables = _vllm_variables(chat, template, special_tokens)
    given = chat.messages
    if chat.endpoint is Endpoint.MESSAGES and merges_inline_system(template):
        given = with_system_first(given)

    def shaped(placeholder: str) -> Messages:
        return engine_messages(given, template.takes_parts, template.knows_developer, chat.endpoint, placeholder)

    def rendered(messages: Messages) -> str:
        return (template.render_open if chat.continue_final_message else template.render)(messages, variables)

    messages = shaped("<image>")
    text = rendered(messages)
    if _has_media(messages):
        return Rendered(told_prefix(text, rendered(_marked(messages))), False, chat.add_special_tokens)
    marked = shaped(MARK)
    if marked != messages:
        # Contents are texts, and what stands for an image there is known to the model alone; it begins the content.
        return Rendered(told_prefix(text, rendered(marked)), False, chat.add_special_tokens)
    return Rendered(text, True, chat.add_special_tokens)


def _vllm_variables(chat: ChatContent, template: ChatTemplate, special_tokens: Mapping[str, Any]) -> JsonObject:
    options = {**special_tokens, "documents": None, "tools": engine_tools(chat.tools), **chat.template_options}
    if chat.endpoint is Endpoint.MESSAGES and chat.effort == "none":
        effort = effort_without_thinking(template)
        options["reasoning_effort"] = effort
        if "enable_thinking" not in chat.client_options:
            options["enable_thinking"] = effort != "none"
    if chat.documents is not None:
        options["documents"] = chat.documents
    return options | {"add_generation_prompt": chat.add_generation_prompt and not chat.continue_final_message}


def _render_as_sglang(chat: ChatContent, template: ChatTemplate, special_tokens: Mapping[str, Any]) -> Rendered:
    if chat.endpoint in (Endpoint.MESSAGES, Endpoint.RESPONSES) and not _is_plain(chat):
        raise TemplateError("SGLang turns this body into another conversation, and not every one in the same way")
    takes_parts = takes_parts_in_sglang(template)
    messages, tail = without_prefix(sglang_messages(chat, takes_parts), chat.continue_final_message)
    tools = sglang_tools(chat)
    variables = {**special_tokens, "documents": None, **sglang_options(chat), "add_generation_prompt": True}

    def rendered(messages: Messages) -> str:
        try:
            return template.render(messages, {**variables, "tools": tools})
        except TemplateError:
            return template.render(messages, {**variables, "tools": bare_tools(tools)})

    text = rendered(messages)
    if _has_media(messages):
        return Rendered(told_prefix(text, rendered(_marked(messages))), complete=False)
    if not takes_parts and _names_media(chat):
        # Nothing in the text stands for an image, so where it goes is the model's own affair.
        return Rendered("", complete=False)
    return Rendered(text, tail=tail)


def _is_plain(chat: ChatContent) -> bool:
    """A responses body of texts alone, which every engine reads alike: what it goes on from may be joined otherwise."""
    roles = [message["role"] for message in chat.messages]
    texts = all(isinstance(message.get("content"), str) for message in chat.messages)
    asks = chat.endpoint is Endpoint.RESPONSES and not chat.tools and chat.effort is None
    return asks and texts and roles in (["user"], ["system", "user"])


def _has_media(messages: Messages) -> bool:
    contents = [message["content"] for message in messages]
    return any(part["type"] in MEDIA for content in contents if isinstance(content, list) for part in content)


def _names_media(chat: ChatContent) -> bool:
    contents = [message.get("content") for message in chat.messages]
    kinds = {part.get("type") for content in contents if isinstance(content, list) for part in content}
    return bool(kinds - {"text", "thinking", "reasoning", "tool_reference"})


def _marked(messages: Messages) -> Messages:
    """The conversation with a mark in place of each image."""
    return [{**message, "content": _marked_content(message["content"])} for message in messages]


def _marked_content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_MARKED_PART if part["type"] in MEDIA else part for part in content]
