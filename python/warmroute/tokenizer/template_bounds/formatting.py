"""`"...".format(...)`, its attributes looked up as a template's are, and its widths foreseen."""

from collections.abc import Callable
from typing import Any

from jinja2.runtime import Undefined
from jinja2.sandbox import SandboxedFormatter

from warmroute.tokenizer.template_bounds.operators import PLAIN, Operations


def format_text(budget: Operations, form: str, /, *args: Any, **kwargs: Any) -> str:
    """`form.format(*args, **kwargs)`."""
    budget.allow_format(form)
    return budget.made(_Formatter(budget).vformat(form, args, kwargs))


class _Formatter(SandboxedFormatter):
    def __init__(self, budget: Operations) -> None:
        super().__init__(budget.environment)
        self._budget = budget
        self._length = 0

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        writes: dict[str | None, Callable[[Any], str]] = {"s": str, "r": repr, "a": ascii}
        if conversion not in writes:
            return super().convert_field(value, conversion)
        self._budget.allow_length(self._budget.printed_length(value))
        return self._budget.made(writes[conversion](value))

    def format_field(self, value: Any, format_spec: str) -> str:
        self._budget.allow_format(format_spec)
        written: str = self._budget.text(value) if not format_spec else format(self._plain(value), format_spec)
        self._length += len(written)
        self._budget.allow_length(self._length)
        return written

    def _plain(self, value: Any) -> Any:
        if type(value) not in PLAIN and not isinstance(value, Undefined):
            raise TypeError(f"a {type(value).__name__!r} cannot be written in a field's own format")
        return value
