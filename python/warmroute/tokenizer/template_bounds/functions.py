"""What templates can call by name, and how any call is carried out."""

from collections.abc import Callable
from datetime import datetime
from types import BuiltinMethodType, MethodType
from typing import Any, NoReturn

import jinja2
from jinja2.runtime import LoopContext, Macro, Undefined
from jinja2.sandbox import safe_range
from jinja2.utils import Cycler, Joiner

from warmroute.tokenizer.template_bounds.budget import MAX_DEPTH
from warmroute.tokenizer.template_bounds.methods import call_method
from warmroute.tokenizer.template_bounds.namespace import TemplateNamespace
from warmroute.tokenizer.template_bounds.operators import Operations

_LONGEST_DATE_FORMAT = 256
"""Characters: `strftime` tries larger and larger buffers, up to 256 times the format, if it writes nothing."""


class Function:
    """A function of templates; `call` gets the budget first."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, budget: Operations, /, *args: Any, **kwargs: Any) -> Any:
        return self._call(budget, *args, **kwargs)


class _DictFunction(Function):
    """`dict(...)`, which has a method. Source: transformers 5.25, `_compile_jinja_template`."""

    __slots__ = ()

    def fromkeys(self, budget: Operations, keys: Any, value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(_keys(budget, budget.collect(keys)), value)


def functions(clock: Callable[[], datetime]) -> dict[str, Function]:
    """The functions by name. `clock` is what `strftime_now` reads."""

    def strftime_now(budget: Operations, form: str) -> str:
        if len(form) > _LONGEST_DATE_FORMAT:
            budget.refuse("asks for a date in too long a format")
        return budget.made(clock().strftime(form))

    return {
        "range": Function(lambda _, *args: safe_range(*args)),
        "dict": _DictFunction(_dict),
        "namespace": Function(_namespace),
        "cycler": Function(_cycler),
        "joiner": Function(lambda budget, sep=", ": Joiner(budget.text(sep))),
        "raise_exception": Function(_raise_exception),
        "strftime_now": Function(strftime_now),
    }


def call(budget: Operations, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Carries out `called(*args, **kwargs)` for a template. Raises TypeError for what cannot be called."""
    budget.steps -= 1 + len(args) + len(kwargs)
    if budget.steps < 0:
        budget.overdrawn()
    kind = type(called)
    if kind is BuiltinMethodType:
        return call_method(budget, called, args, kwargs)
    if kind is Macro or kind is LoopContext:
        return _nested(budget, called, args, kwargs)
    if isinstance(called, Function):
        return called(budget, *args, **kwargs)
    if kind is MethodType:
        return _call_own(budget, called, args, kwargs)
    if kind is Joiner or isinstance(called, Undefined):
        return called(*args, **kwargs)
    raise TypeError(f"{kind.__name__!r} cannot be called")


def _nested(budget: Operations, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    budget.steps -= 8
    if budget.depth >= MAX_DEPTH:
        budget.refuse(f"calls itself more than {MAX_DEPTH} deep")
    budget.depth += 1
    try:
        return called(*args, **kwargs)
    finally:
        budget.depth -= 1


def _call_own(budget: Operations, method: MethodType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The methods of what the language itself provides."""
    kind, name = type(method.__self__), method.__name__
    if kind is _DictFunction and name == "fromkeys":
        return method(budget, *args, **kwargs)
    if kind is LoopContext and name == "changed":
        for arg in args:
            budget.comparable(arg)
    elif not (kind is LoopContext and name == "cycle") and not (kind is Cycler and name in ("next", "reset")):
        raise TypeError(f"templates cannot call {name!r}")
    return method(*args, **kwargs)


def _keys(budget: Operations, keys: list[Any]) -> list[Any]:
    budget.spend(8 * len(keys))
    return [budget.key(key) for key in keys]


def _dict(budget: Operations, values: Any = (), /, **kwargs: Any) -> dict[Any, Any]:
    if isinstance(values, dict):
        items = values
    else:
        pairs = [(key, value) for key, value in budget.collect(values)]
        items = dict(zip(_keys(budget, [key for key, _ in pairs]), (value for _, value in pairs), strict=True))
    budget.allow_width(len(items))
    budget.spend(16 + 8 * (len(items) + len(kwargs)))
    return {**items, **kwargs}


def _namespace(budget: Operations, /, *args: Any, **kwargs: Any) -> TemplateNamespace:
    budget.spend(48)
    return TemplateNamespace(_dict(budget, *args, **kwargs))


def _cycler(budget: Operations, *items: Any) -> Cycler:
    budget.spend(8 + len(items))
    return Cycler(*items)


def _raise_exception(budget: Operations, message: Any = "") -> NoReturn:
    raise jinja2.TemplateError(budget.text(message))
