"""Whose rendering of a conversation is imitated: the same messages become other text in each engine."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from warmroute.openai_api import ChatContent, JsonObject
from warmroute.tokenizer.assets import DEFAULT_TEMPLATE
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.conversation import engine_messages, engine_tools

_TOOL_TEMPLATE = "tool_use"


class Dialect(StrEnum):
    """The engine whose way of reading a conversation is followed."""

    VLLM = "vllm"
    SGLANG = "sglang"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a conversation, and how the engine turns it into ids.

    `complete` is False where `text` is only a true prefix of what the engine will see: its last characters may then
    share a token with what follows. `add_special_tokens`: whether the engine lets its tokenizer add some.
    """

    text: str
    complete: bool = True
    add_special_tokens: bool = False


def render(
    chat: ChatContent, template: ChatTemplate, special_tokens: Mapping[str, Any], dialect: Dialect = Dialect.VLLM
) -> Rendered:
    """What an engine makes of `chat` with its model's `template`. Raises TemplateError."""
    messages = engine_messages(chat.messages, template.takes_parts, template.knows_developer)
    variables = _variables(chat, special_tokens)
    open_end = template.render_open if chat.continue_final_message else template.render
    return Rendered(open_end(messages, variables), True, chat.add_special_tokens)


def template_name(chat: ChatContent, names: Collection[str], dialect: Dialect = Dialect.VLLM) -> str:
    """Which of the model's templates, `names`, an engine takes where the client names none."""
    return _TOOL_TEMPLATE if chat.tools is not None and _TOOL_TEMPLATE in names else DEFAULT_TEMPLATE


def _variables(chat: ChatContent, special_tokens: Mapping[str, Any]) -> JsonObject:
    options = {**special_tokens, "documents": None, **chat.template_options}
    if chat.documents is not None:
        options["documents"] = chat.documents
    cue = chat.add_generation_prompt and not chat.continue_final_message
    return options | {"tools": engine_tools(chat.tools), "add_generation_prompt": cue}
