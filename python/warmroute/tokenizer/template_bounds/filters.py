"""Filters and tests, each paid for before it runs. Jinja's own do the work where they can.

Left out are those that no chat template needs and whose cost cannot be foreseen, or which differ from run to run:
filesizeformat, forceescape, pprint, random, striptags, urlencode, urlize, wordcount, wordwrap and xmlattr.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from jinja2 import filters as jinja_filters
from jinja2 import tests as jinja_tests
from jinja2.runtime import Context, Undefined
from jinja2.utils import Namespace, pass_context
from markupsafe import Markup, escape

from warmroute.tokenizer.template_bounds.budget import BASE_LENGTH
from warmroute.tokenizer.template_bounds.methods import METHODS, join_texts, line_count, replace_text
from warmroute.tokenizer.template_bounds.operators import COMPARISONS, Operations, budget_of

Filter = Callable[..., Any]
"""Called with the budget, the value, and the arguments that the template gives."""

_STEPS_PER_ITEM = 8
"""For an item that a filter asks for an attribute, or hands to another filter or a test."""

_STEPS_PER_ITERATOR = 40
"""For what gives items one by one: 500 bytes."""

_MOST_ITERATORS = 32
"""Over each other; templates have up to five."""

_MOST_ARGUMENTS = 64
_LONGEST_NUMBER = 2**12
_LARGEST_PRECISION = 308


def _lazy(function: Filter, names: int) -> Filter:
    """A filter that gives its items one by one: jinja's own, over items that are paid for when they are taken.

    `names`: how many of its first arguments name an attribute, a filter or a test.
    """

    @pass_context
    def each(context: Context, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(context)
        _check_number(budget, args)  # Each item is handed to the filter with a copy of them.
        budget.spend(_STEPS_PER_ITERATOR)
        for name in args[:names]:
            budget.key(name)
        steps = _STEPS_PER_ITEM + _attribute_steps(budget, args[0] if args else kwargs.get("attribute"))
        depth = value.depth + 1 if type(value) is _Items else 1
        if depth > _MOST_ITERATORS:
            budget.refuse(f"takes items from items {depth} deep")
        items = budget.ticking(value, steps) if value else value
        return _Items(function(context, items, *args, **kwargs), depth)

    return each


class _Items:
    """What gives items one by one, and over how many others it does: Python ends deep ones in a single long call."""

    __slots__ = ("_items", "depth")

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        self._items = items
        self.depth = depth

    def __iter__(self) -> "_Items":
        return self

    def __next__(self) -> Any:
        return next(self._items)


def _check_number(budget: Operations, arguments: tuple[Any, ...]) -> None:
    if len(arguments) > _MOST_ARGUMENTS:
        budget.refuse(f"hands {len(arguments)} arguments to a filter or a test")


def _attribute_steps(budget: Operations, attribute: Any) -> int:
    """What looking up `a.b.c` costs for one item."""
    return len(attribute) >> 1 if isinstance(budget.key(attribute), str) else 1


def _gathering(function: Filter) -> Filter:
    """A filter that compares its items: all of them are weighed first, and so is what they are compared by."""

    def gather(budget: Operations, value: Any, *args: Any, **kwargs: Any) -> Any:
        items = budget.collect(value)
        width, characters = budget.weigh(items)
        attributes = [argument for argument in (*args, *kwargs.values()) if isinstance(argument, str)]
        budget.spend(sum(len(attribute) * len(items) for attribute in attributes))
        budget.spend(width * (4 + width.bit_length()) + characters)
        return function(budget.environment, items, *args, **kwargs)

    return gather


def _dictsort(budget: Operations, value: Any, *args: Any, **kwargs: Any) -> Any:
    width, characters = budget.weigh(value)
    budget.spend(width * width.bit_length() + characters)
    return jinja_filters.do_dictsort(value, *args, **kwargs)


def _unique(budget: Operations, value: Any, case_sensitive: bool = False, attribute: Any = None) -> Iterator[Any]:
    items = budget.collect(value)
    get = jinja_filters.make_attrgetter(budget.environment, attribute)
    steps = _STEPS_PER_ITEM + _attribute_steps(budget, attribute)
    for item in items:
        key = budget.key(get(item))
        budget.spend(steps + (len(key) >> 3 if isinstance(key, str) else 0))
    yield from jinja_filters.sync_do_unique(budget.environment, items, case_sensitive, attribute)


def _sum(budget: Operations, iterable: Any, attribute: Any = None, start: Any = 0) -> Any:
    get = jinja_filters.make_attrgetter(budget.environment, attribute)
    steps = _STEPS_PER_ITEM + _attribute_steps(budget, attribute)
    if isinstance(start, str):
        raise TypeError("texts are joined, not summed")
    for item in iterable:
        budget.spend(steps)
        start = budget.plus((start, get(item)))
    return start


def _join(budget: Operations, value: Any, d: Any = "", attribute: Any = None) -> str:
    items = budget.collect(value)
    if attribute is not None:
        get = jinja_filters.make_attrgetter(budget.environment, attribute)
        budget.spend(len(items) * _STEPS_PER_ITEM)
        items = [get(item) for item in items]
    return join_texts(budget, budget.text(d), [budget.text(item) for item in items])


def _batch(budget: Operations, value: Any, linecount: int, fill_with: Any = None) -> Iterator[Any]:
    items = budget.collect(value)
    budget.allow_width(len(items) + linecount)
    budget.spend(8 * len(items) + abs(linecount))
    return iter(list(jinja_filters.do_batch(items, linecount, fill_with)))


def _slice(budget: Operations, value: Any, slices: int, fill_with: Any = None) -> Iterator[Any]:
    items = budget.collect(value)
    budget.allow_width(len(items) + slices)
    budget.spend(len(items) + 8 * abs(slices))
    return iter(list(jinja_filters.sync_do_slice(items, slices, fill_with)))


def _text_method(name: str) -> Filter:
    """A filter that is a method of texts; what is marked as safe stays so."""
    method = METHODS[str][name]

    def call(budget: Operations, value: Any, *args: Any, **kwargs: Any) -> str:
        text = method(budget, budget.text(value), *args, **kwargs)
        return Markup(text) if isinstance(value, Markup) else text

    return call


def _trim(budget: Operations, value: Any, chars: str | None = None) -> str:
    stripped: str = _strip(budget, value if type(value) is str else budget.text(value), chars)
    return Markup(stripped) if isinstance(value, Markup) else stripped


def _center(budget: Operations, value: Any, width: int = 80) -> str:
    centered: str = METHODS[str]["center"](budget, budget.text(value), width)
    return centered


def _title(budget: Operations, value: Any) -> str:
    text = budget.text(value)
    budget.allow_length(3 * len(text))
    budget.spend(2 * len(text))
    return budget.made(jinja_filters.do_title(text))


def _replace(budget: Operations, s: Any, old: Any, new: Any, count: int | None = None) -> str:
    return replace_text(budget, budget.text(s), budget.text(old), budget.text(new), -1 if count is None else count)


def _indent(budget: Operations, s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    lines = line_count(s)
    budget.allow_width(lines)
    budget.allow_length(len(s) + (lines + 1) * (1 + (len(width) if isinstance(width, str) else max(width, 0))))
    budget.spend(lines + (len(s) >> 4))
    return budget.made(jinja_filters.do_indent(s, width, first, blank))


def _truncate(budget: Operations, s: str, *args: Any, **kwargs: Any) -> str:
    budget.spend(len(s) >> 4)
    return budget.made(jinja_filters.do_truncate(budget.environment, s, *args, **kwargs))


def _format(budget: Operations, value: Any, /, *args: Any, **kwargs: Any) -> Any:
    if args and kwargs:
        raise TypeError("a format takes values by position or by name, not both")
    return budget.modulo(budget.text(value), kwargs or args)


def _string(budget: Operations, value: Any) -> str:
    return value if isinstance(value, Markup) else budget.text(value)


def _safe(budget: Operations, value: Any) -> Markup:
    return Markup(budget.text(value))


def _escape(budget: Operations, value: Any) -> Markup:
    if isinstance(value, Markup):
        return value
    text = budget.text(value)
    budget.allow_length(5 * len(text))
    escaped = escape(text)
    budget.made(str(escaped))
    return escaped


def _reverse(budget: Operations, value: Any) -> Any:
    if isinstance(value, str):
        return budget.cut(value, slice(None, None, -1))
    try:
        return reversed(value)
    except TypeError:
        return budget.collect(value)[::-1]


def _number(function: Filter) -> Filter:
    """`int` and `float` of what may be a text."""

    def convert(budget: Operations, value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, str):
            budget.spend(len(value) >> 4)
            if len(value) > _LONGEST_NUMBER:
                value = "no number"  # Python refuses whole numbers of so many digits; a prompt has none.
        return budget.number(function(value, *args, **kwargs))

    return convert


def _round(budget: Operations, value: Any, precision: int = 0, method: Any = "common") -> Any:
    if abs(precision) > _LARGEST_PRECISION:
        budget.refuse(f"rounds to {precision:.0f} digits")
    return budget.number(jinja_filters.do_round(value, precision, method))


def _attr(budget: Operations, obj: Any, name: Any) -> Any:
    if isinstance(obj, Namespace):
        return budget.environment.getattr(obj, name)
    return jinja_filters.do_attr(budget.environment, obj, budget.key(name))


_strip = METHODS[str]["strip"]
_encode = json.JSONEncoder(ensure_ascii=False).encode


def _tojson(
    budget: Operations,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes for HTML; a prompt is not HTML. Source: transformers 5.25."""
    if isinstance(value, Undefined):
        raise TypeError("what is undefined has no JSON")
    width, characters = budget.weigh(value)
    if indent is None and separators is None and not ensure_ascii and not sort_keys:
        return budget.made(_encode(value))
    around = sum(map(len, separators)) if separators is not None else 4
    if indent is not None:
        step = len(indent) if isinstance(indent, str) else max(indent, 0)
        levels = width if step * width * width < BASE_LENGTH else _nesting(value)
        around += 1 + step * levels
        budget.spend(4 * width)  # With an indentation it is Python's own encoder in Python that writes.
    budget.allow_length(characters + width * around)
    return budget.made(
        json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    )


def _nesting(value: Any) -> int:
    """How deep a value that was weighed is nested."""
    depth, level = 0, [value]
    while level := [
        item
        for inner in level
        if isinstance(inner, (dict, list, tuple))
        for item in (inner.values() if isinstance(inner, dict) else inner)
    ]:
        depth += 1
    return depth


FILTERS: dict[str, Filter] = {
    **{name: _text_method(name) for name in ("upper", "lower", "capitalize")},
    "sort": _gathering(jinja_filters.do_sort), "groupby": _gathering(jinja_filters.sync_do_groupby),
    "min": _gathering(jinja_filters.do_min), "max": _gathering(jinja_filters.do_max),
    "dictsort": _dictsort, "unique": _unique, "sum": _sum, "join": _join, "batch": _batch, "slice": _slice,
    "list": lambda budget, value: budget.collect(value),
    "trim": _trim, "center": _center, "title": _title, "replace": _replace, "indent": _indent, "truncate": _truncate,
    "format": _format, "string": _string, "safe": _safe, "escape": _escape, "e": _escape, "reverse": _reverse,
    "int": _number(jinja_filters.do_int), "float": _number(jinja_filters.do_float), "round": _round,
    "attr": _attr, "tojson": _tojson,
}  # fmt: skip
"""The filters whose cost depends on what they are given."""

LAZY_FILTERS: dict[str, Filter] = {
    "map": _lazy(jinja_filters.sync_do_map, 1),
    "select": _lazy(jinja_filters.sync_do_select, 1),
    "reject": _lazy(jinja_filters.sync_do_reject, 1),
    "selectattr": _lazy(jinja_filters.sync_do_selectattr, 2),
    "rejectattr": _lazy(jinja_filters.sync_do_rejectattr, 2),
}
"""The filters that give their items one by one, as jinja calls them."""

CHEAP_FILTERS = ("abs", "count", "d", "default", "first", "items", "last", "length")
"""Jinja's own, which take the same time whatever they are given."""


def _compare(name: str) -> Callable[..., Any]:
    def test(budget: Operations, value: Any, other: Any) -> Any:
        return COMPARISONS[name](budget.comparable(value), other)

    return test


def _parity(name: str) -> Callable[..., Any]:
    """Tests of whole numbers: `%` of a text would be a format."""
    jinja: Callable[..., Any] = getattr(jinja_tests, f"test_{name}")

    def test(_: Operations, value: Any, *args: Any) -> Any:
        if isinstance(value, str):
            raise TypeError(f"a text is not {name}")
        return jinja(value, *args)

    return test


def _case(name: str) -> Callable[..., Any]:
    method = METHODS[str][f"is{name}"]
    return lambda budget, value: method(budget, budget.text(value))


TESTS: dict[str, Callable[..., Any]] = {
    **{name: _compare(name) for name in COMPARISONS},
    **{name: _parity(name) for name in ("odd", "even", "divisibleby")},
    **{name: _case(name) for name in ("lower", "upper")},
    "in": lambda budget, value, values: budget.contains(value, values),
    "filter": lambda budget, value: budget.key(value) in budget.environment.filters,
    "test": lambda budget, value: budget.key(value) in budget.environment.tests,
}
"""The tests whose cost depends on what they are given."""

CHEAP_TESTS = (
    "boolean", "callable", "defined", "escaped", "false", "float", "integer", "iterable", "mapping", "none", "number",
    "sameas", "sequence", "string", "true", "undefined",
)  # fmt: skip
"""Jinja's own, which take the same time whatever they are given."""


def budgeted(call: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or a test as jinja calls it: with the context, of which ours gets the budget."""

    @pass_context
    def apply(context: Context, /, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(context)
        _check_number(budget, args)
        return call(budget, *args, **kwargs)

    return apply
