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
    Content,
    Guard,
    StandIn,
    Untraceable,
    has_contents,
    has_marks,
    is_opaque,
    pieces,
)

ROLES = {"s": "system", "u": "user", "a": "assistant"}
"""The letters of a signature."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """pieces: the text in order. guards: for each message the texts that its content must not hold, and whether it must
    not be blank: else the template may write something else."""

    pieces: list[str | Content]
    guards: list[tuple[list[str], bool]]


class TracingTemplate(ChatTemplate):
    """A template that is run on stand-ins for contents."""

    def __init__(self, source: str, clock: Callable[[], datetime]) -> None:
        """Raises TemplateError."""
        super().__init__(source, clock, TracingEnvironment)
        self._clock = clock
        if has_marks(source):
            raise TemplateError("the template writes what stands for contents")

    def is_of_today(self) -> bool:
        """Whether the dates that were written are still today's; the next runs write new ones."""
        assert isinstance(self._environment, TracingEnvironment)
        dates = self._environment.dates
        if not dates or all(self._clock().strftime(form) == written for form, written in dates.items()):
            return True
        dates.clear()
        return False

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
    return Skeleton(pieces(_plain(rendered.text)), [(sorted(guard.forbidden), guard.not_blank) for guard in guards])


def _plain(text: Any) -> str:
    return text.plain() if is_opaque(text) else text  # type: ignore[no-any-return]


def _is_bare(value: Any) -> bool:
    """Whether there is a text with contents in `value` that can still be looked into."""
    if isinstance(value, str):
        return has_contents(value)
    if isinstance(value, Mapping):
        return any(map(_is_bare, value.values()))
    return isinstance(value, Iterable) and any(map(_is_bare, value))
