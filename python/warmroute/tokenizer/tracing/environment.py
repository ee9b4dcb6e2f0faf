"""Running a template on stand-ins: all that a template can do with a value comes through here.

The operators of the language are the budget's already; tests, filters and calls are the environment's. What is not
known to keep a stand-in a stand-in is refused, so a run that ends well has looked into no content.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2.runtime import Context
from jinja2.utils import pass_context

from warmroute.tokenizer.template_bounds.environment import BudgetedEnvironment
from warmroute.tokenizer.template_bounds.functions import Function
from warmroute.tokenizer.template_bounds.operators import BudgetedContext, Operations, budget_of
from warmroute.tokenizer.tracing.stand_in import (
    METHODS,
    Guard,
    Mixed,
    StandIn,
    Untraceable,
    guards_in,
    is_opaque,
    shield,
    strip,
)

# Filters that hand their values on as they are, or count, pick and join them.
_FILTERS = frozenset({
    "count", "d", "default", "first", "items", "join", "last", "length", "list", "map", "reject", "rejectattr",
    "reverse", "select", "selectattr",
})  # fmt: skip
# Tests that look at the kind of a value alone.
_KINDS = frozenset({
    "boolean", "callable", "defined", "false", "float", "integer", "iterable", "mapping", "none", "number", "sequence",
    "string", "true", "undefined",
})  # fmt: skip
_COMPARING = frozenset({"eq", "equalto", "==", "ne", "!=", "in"})
_SOME_TEXT = "x"
_DIRECTIVE = re.compile(r"%[-_0^#]*(.)", re.DOTALL)
_OF_THE_DAY = frozenset("aAbBdeDFGgjmuUvVwWxyY%")
_MOST_DEPTH = 4  # of lists and dictionaries in which contents are looked for: a part of a message is at 3


class TracingEnvironment(BudgetedEnvironment):
    """As the environment of renderings, for values that may be stand-ins."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self._clock = clock
        self.dates: dict[str, str] = {}
        """The dates that templates have asked for, by their formats, and what they were."""
        self.filters = {name: _traced_filter(name, call) for name, call in self.filters.items()}
        tests: dict[str, Any] = self.tests
        self.tests = {name: _traced_test(name, call) for name, call in tests.items()}
        self.globals["strftime_now"] = Function(self._date)

    def render(self, template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        context = template.new_context(dict(variables))
        assert isinstance(context, BudgetedContext)
        context.budget = TracingOperations(self, guards_in(variables["messages"]))
        return context.budget.gather(template.root_render_func(context))

    def _date(self, _: Operations, form: Any) -> str:
        """What changes only with the day; the time of day would be another for each conversation."""
        if type(form) is not str or set(_DIRECTIVE.findall(form)) - _OF_THE_DAY:
            raise Untraceable("the template asks for the time")
        self.dates[form] = self._clock().strftime(form)
        return self.dates[form]

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("_loop_vars", None)
        kwargs.pop("_block_vars", None)
        if isinstance(called, _Method):
            return called.call(_guards(context), args, kwargs)
        if type(getattr(called, "__self__", None)) in (str, list, dict, tuple) and _any_opaque((*args, kwargs)):
            raise Untraceable("a content is handed to a method")
        return shield(super().call(context, called, *args, **kwargs), _guards(context))

    def getattr(self, obj: Any, attribute: str) -> Any:
        if is_opaque(obj):
            return _Method(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if is_opaque(argument):
            raise Untraceable("a content is a key")
        if is_opaque(obj):
            return _Method(obj, argument) if type(argument) is str else obj[argument]
        return super().getitem(obj, argument)


class _Method:
    """A method of a text with contents, looked up and not yet called."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, name: str) -> None:
        self._value = value
        self._name = name

    def call(self, guards: Mapping[int, Guard], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        allowed = _STRIPS if isinstance(self._value, Mixed) else METHODS
        if self._name not in allowed or kwargs or _any_opaque(args):
            raise Untraceable(f"{self._name} of a content")
        if isinstance(self._value, StandIn):
            return getattr(self._value, self._name)(*args)
        if args:
            raise Untraceable("certain characters are stripped from a text with contents")
        return _strip(self._value, guards, self._name)


_STRIPS = {"strip": (True, True), "lstrip": (True, False), "rstrip": (False, True)}


def _strip(value: Any, guards: Mapping[int, Guard], name: str) -> Any:
    left, right = _STRIPS[name]
    return strip(value.plain(), guards, left=left, right=right)


def _guards(context: Context) -> Mapping[int, Guard]:
    budget = budget_of(context)
    assert isinstance(budget, TracingOperations)
    return budget.guards


class TracingOperations(Operations):
    """The operators, for values that may be stand-ins; what is not here meets their own methods, which end the run."""

    __slots__ = ("guards",)

    def __init__(self, environment: TracingEnvironment, guards: Mapping[int, Guard]) -> None:
        """`guards`: of each message."""
        super().__init__(environment, {})
        self.guards = guards

    def text(self, value: Any) -> str:
        return value.plain() if is_opaque(value) else super().text(value)

    def made(self, text: str) -> str:
        return shield(super().made(text), self.guards)  # type: ignore[no-any-return]

    def concat(self, pieces: Sequence[str]) -> str:
        return super().concat([self.text(piece) for piece in pieces])

    def plus(self, values: Sequence[Any]) -> Any:
        if not any(map(is_opaque, values)):
            return super().plus(values)
        if not all(isinstance(value, str) for value in values):
            raise Untraceable("a content is added to what is no text")
        return self.concat(values)

    def contains(self, item: Any, values: Any) -> bool:
        if is_opaque(item):
            raise Untraceable("a content is looked for")
        if is_opaque(values):
            return item in values
        return super().contains(item, values)

    def cut(self, value: Any, part: slice) -> Any:
        if is_opaque(value):
            raise Untraceable("a part of a content")
        return super().cut(value, part)

    def times(self, left: Any, right: Any) -> Any:
        return self._no_content(super().times, left, right)

    def modulo(self, left: Any, right: Any) -> Any:
        return self._no_content(super().modulo, left, right)

    def _no_content(self, operator: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if _any_opaque((left, right)):
            raise Untraceable("a content in an operation")
        return operator(left, right)


def _traced_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @pass_context
    def call(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        if name == "string" and is_opaque(value):
            return value
        if name == "trim" and is_opaque(value) and not args and not kwargs:
            return _strip(value, _guards(context), "strip")
        if name not in _FILTERS and _any_opaque((value, *args, *kwargs.values())):
            raise Untraceable(f"the filter {name} is given a content")
        return shield(_called(context, function, value, *args, **kwargs), _guards(context))

    return call


def _traced_test(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @pass_context
    def call(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        if name in _KINDS and is_opaque(value):
            value = _SOME_TEXT
        elif name not in _COMPARING and name not in _KINDS and _any_opaque((value, *args, *kwargs.values())):
            raise Untraceable(f"the test {name} is given a content")
        return _called(context, function, value, *args, **kwargs)

    return call


def _called(context: Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """As jinja calls a filter or a test that wants to know about its surroundings, or does not."""
    wants = getattr(function, "jinja_pass_arg", None)
    if wants is None:
        return function(*args, **kwargs)
    around: dict[str, Any] = {"context": context, "eval_context": context.eval_ctx, "environment": context.environment}
    return function(around[wants.name], *args, **kwargs)


def _any_opaque(values: Iterable[Any], depth: int = _MOST_DEPTH) -> bool:
    """Whether a content is among `values`, or in what they hold; what is deeper counts as one."""
    for value in values:
        if is_opaque(value):
            return True
        if isinstance(value, dict | list | tuple) and value:
            inner = value.values() if isinstance(value, dict) else value
            if depth == 0 or _any_opaque(inner, depth - 1):
                return True
    return False
