"""Chat templates, rendered as Hugging Face transformers renders them.

Source: transformers 5.25, `utils/chat_template_utils.py` (`_compile_jinja_template`, `render_jinja_template`). What a
template may cost is bounded, see `template_bounds`: it comes with a model, or with a request.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from warmroute.errors import TemplateError
from warmroute.tokenizer.content_format import iterates_over_content
from warmroute.tokenizer.template_bounds.environment import BudgetedEnvironment

# What transformers appends to the last message to find the place where it ends; the space catches templates that trim.
_END_MARK = "CONTINUE_FINAL_MESSAGE_TAG "

Clock = Callable[[], datetime]


class ChatTemplate:
    """One compiled chat template. Rendering is safe from any thread."""

    def __init__(self, source: str, clock: Clock, environment: type[BudgetedEnvironment] = BudgetedEnvironment) -> None:
        """`clock` is what `strftime_now` reads. Raises TemplateError if `source` is not a template."""
        self._environment = environment(clock)
        try:
            syntax = self._environment.read(source)
            self.takes_parts = iterates_over_content(syntax)
            self._template = self._environment.program(syntax)
        except TemplateError:
            raise
        except Exception as exc:  # Jinja's own errors, and Python's for code that jinja should not have made.
            raise TemplateError(f"the chat template cannot be read: {type(exc).__name__}: {exc}"[:500]) from exc
        self.source = source
        self.knows_developer = "'developer'" in source or '"developer"' in source

    def render(self, messages: list[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        """The text of a conversation. Raises TemplateError, whatever the template does."""
        try:
            return self._environment.render(self._template, {**variables, "messages": messages})
        except TemplateError:
            raise
        except Exception as exc:  # A template is a program of somebody else's and may raise anything.
            raise TemplateError(f"the chat template failed: {type(exc).__name__}: {exc}"[:500]) from exc

    def render_open(self, messages: list[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        """The text up to the end of the last message, so that the model goes on with it. Raises TemplateError."""
        marked, last = _with_end_mark(messages)
        text = self.render(marked, variables)
        end = text.rfind(_END_MARK.strip())
        if end < 0 or last.strip() not in text:
            raise TemplateError("the last message does not appear in the chat, so it cannot be continued")
        trimmed = not text.startswith(_END_MARK, end)
        return text[:end].rstrip() if trimmed else text[:end]


def _with_end_mark(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The messages with a mark after the last one's text, and that text."""
    content = messages[-1].get("content")
    if isinstance(content, str):
        return [*messages[:-1], {**messages[-1], "content": content + _END_MARK}], content
    parts: list[dict[str, Any]] = content or []
    for i in reversed(range(len(parts))):
        if "text" in parts[i]:
            marked = [*parts[:i], {**parts[i], "text": parts[i]["text"] + _END_MARK}, *parts[i + 1 :]]
            return [*messages[:-1], {**messages[-1], "content": marked}], parts[i]["text"]
    raise TemplateError("the last message has no text to continue")
