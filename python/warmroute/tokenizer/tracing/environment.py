"""Running a template on stand-ins: all that a template can do with a value comes through here.

The operators of the language are the budget's already; tests, filters and calls are the environment's. What is not
known to keep a stand-in a stand-in is refused, so a run that ends well has looked into no content.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.runtime import Context
from jinja2.utils import pass_context

from warmroute.tokenizer.template_bounds.environment import BudgetedEnvironment
from warmroute.tokenizer.template_bounds.functions import Function
from warmroute.tokenizer.template_bounds.operators import BudgetedContext, Operations
from warmroute.tokenizer.tracing.stand_in import METHODS, StandIn, Untraceable, is_opaque, shield

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
_MOST_DEPTH = 4  # of lists and dictionaries in which contents are looked for: a part of a message is at 3


class TracingEnvironment(BudgetedEnvironment):
    """As the environment of renderings, for values that may be stand-ins."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__(clock)
        self.filters = {name: _traced_filter(name, call) for name, call in self.filters.items()}
        tests: dict[str, Any] = self.tests
        self.tests = {name: _traced_test(name, call) for name, call in tests.items()}
        # What is true of today's date is not true tomorrow.
        self.globals["strftime_now"] = Function(_untraceable)

    def render(self, template: jinja2.Template, variables: Mapping[str, Any]) -> str:
        context = template.new_context(dict(variables))
        assert isinstance(context, BudgetedContext)
        context.budget = TracingOperations(self, {})
        return context.budget.gather(template.root_render_func(context))

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(called, _Method):
            return called.call(args, kwargs)
        if type(getattr(called, "__self__", None)) in (str, list, dict, tuple) and _any_opaque((*args, kwargs)):
            raise Untraceable("a content is handed to a method")
        return shield(super().call(context, called, *args, **kwargs))

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
    """A method of a content, looked up and not yet called."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, name: str) -> None:
        self._value = value
        self._name = name
        if name not in METHODS or not isinstance(value, StandIn):
            raise Untraceable(f"{name} of a content")

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if kwargs or _any_opaque(args):
            raise Untraceable(f"{self._name} of a content")
        return getattr(self._value, self._name)(*args)


class TracingOperations(Operations):
    """The operators, for values that may be stand-ins; what is not here meets their own methods, which end the run."""

    __slots__ = ()

    def text(self, value: Any) -> str:
        return value.plain() if is_opaque(value) else super().text(value)

    def made(self, text: str) -> str:
        return shield(super().made(text))  # type: ignore[no-any-return]

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
        if name in ("trim", "string") and isinstance(value, StandIn):
            return value.strip(*args, **kwargs) if name == "trim" else value
        if name not in _FILTERS and _any_opaque((value, *args, *kwargs.values())):
            raise Untraceable(f"the filter {name} is given a content")
        return shield(_called(context, function, value, *args, **kwargs))

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


def _untraceable(*_: Any, **__: Any) -> NoReturn:
    raise Untraceable("the template asks for the date")
