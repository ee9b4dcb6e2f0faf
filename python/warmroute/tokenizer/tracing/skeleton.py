"""The text of every plain conversation whose messages have given roles, but for their contents."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, JsonObject
from warmroute.tokenizer.chat_template import ChatTemplate
from warmroute.tokenizer.dialect import Dialect, render
from warmroute.tokenizer.tracing.environment import TracingEnvironment
from warmroute.tokenizer.tracing.stand_in import (
    Guard,
    Mixed,
    StandIn,
    Untraceable,
    has_marks,
    is_opaque,
    pieces,
    shield,
)

ROLES = {"s": "system", "u": "user", "a": "assistant"}
"""The letters of a signature."""

Piece = str | tuple[int, bool, bool]
"""A text, or of a content its message and whether it is stripped on its left and right."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """pieces: the text in order. guards: for each message the texts that its content must not hold, and whether it must
    not be blank: else the template may write something else."""

    pieces: list[Piece]
    guards: list[tuple[list[str], bool]]


class TracingTemplate(ChatTemplate):
    """A template that is run on stand-ins for contents."""

    def __init__(self, source: str, clock: Callable[[], datetime]) -> None:
        """Raises TemplateError."""
        super().__init__(source, clock, TracingEnvironment)
        if has_marks(source):
            raise TemplateError("the template writes what stands for contents")

    def render(self, messages: list[JsonObject], variables: Mapping[str, Any]) -> str:
        if any(_is_bare(value) for value in (messages, variables)):
            raise TemplateError("contents have been joined before the template got them")
        return super().render(messages, variables)


def trace(
    template: TracingTemplate, special_tokens: Mapping[str, Any], dialect: Dialect, signature: str
) -> Skeleton | None:
    """What `template` writes for conversations of these roles; None where that depends on more than the guards say."""
    guards = [Guard() for _ in signature]
    messages = [
        {"role": ROLES[letter], "content": StandIn(i, guard)}
        for i, (letter, guard) in enumerate(zip(signature, guards, strict=True))
    ]
    try:
        rendered = render(ChatContent(messages), template, special_tokens, dialect)
    except (TemplateError, Untraceable):
        return None
    if not rendered.complete or rendered.tail or rendered.add_special_tokens:
        return None
    text = rendered.text.plain() if isinstance(rendered.text, Mixed) else rendered.text
    return Skeleton(pieces(text), [(sorted(guard.forbidden), guard.not_blank) for guard in guards])


def _is_bare(value: Any) -> bool:
    """Whether a text holds contents and can still be looked into."""
    if isinstance(value, str):
        return not is_opaque(value) and shield(value) is not value
    if isinstance(value, Mapping):
        return any(map(_is_bare, value.values()))
    return isinstance(value, Iterable) and any(map(_is_bare, value))
