"""Chat templates, rendered as Hugging Face transformers renders them.

Source: transformers 5.24, `utils/chat_template_utils.py` (`_compile_jinja_template`, `render_jinja_template`).
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from warmroute.errors import TemplateError
from warmroute.tokenizer.content_format import iterates_over_content

# What transformers appends to the last message to find the place where it ends; the space catches templates that trim.
_END_MARK = "CONTINUE_FINAL_MESSAGE_TAG "

Clock = Callable[[], datetime]


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's tokens for training; for a prompt its body alone counts."""

    tags = {"generation"}  # noqa: RUF012  (jinja declares it as a plain class attribute)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Macro) -> str:
        return caller()


class ChatTemplate:
    """One compiled chat template. Rendering is safe from any thread."""

    def __init__(self, source: str, clock: Clock) -> None:
        """`clock` is what `strftime_now` reads. Raises TemplateError if `source` is not a template."""
        environment = _environment(clock)
        try:
            syntax = environment.parse(source)
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as exc:
            raise TemplateError(f"the chat template cannot be read: {exc}") from exc
        self.source = source
        self.takes_parts = iterates_over_content(syntax)
        self.knows_developer = "'developer'" in source or '"developer"' in source

    def render(self, messages: list[dict[str, Any]], variables: Mapping[str, Any]) -> str:
        """The text of a conversation. Raises TemplateError, whatever the template does."""
        try:
            return self._template.render({**variables, "messages": messages})
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


def _environment(clock: Clock) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: clock().strftime(form)
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes for HTML; a prompt is not HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
