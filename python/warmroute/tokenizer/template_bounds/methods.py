"""The methods that templates may call on values, each paid for before it is called.

What is not listed here cannot be called. The lists are what templates in use call, and the rest of what text methods
there are as long as they cost a bounded time for each character.
"""

from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any

from warmroute.tokenizer.template_bounds.formatting import format_text
from warmroute.tokenizer.template_bounds.operators import Operations
from warmroute.tokenizer.template_bounds.search import (
    is_linear_backwards,
    rfind,
    rpartition,
    rsplit,
    steps_to_search,
)

Method = Callable[..., Any]
"""Called with the budget, the value, and the arguments that the template gives."""

_SHORT = 2**12
"""Characters of a text for which going through once is paid by the node that asks for it."""

_LONGEST_SET = 64
"""Characters in the argument of `strip`: each character of the text is looked up among them, one by one."""


def _scanning(name: str, steps_shift: int = 4) -> Method:
    """A method of texts that looks at each character once."""
    method = getattr(str, name)

    def scan(budget: Operations, value: str, *args: Any) -> Any:
        budget.spend(len(value) >> steps_shift)
        return _paid(budget, method(value, *args))

    return scan


def _growing(name: str, factor: int) -> Method:
    """A method of texts that makes at most `factor` characters of one (`ΐ` has three in capitals)."""
    method = getattr(str, name)

    def grow(budget: Operations, value: str) -> str:
        budget.allow_length(len(value) * factor)
        budget.spend(len(value) >> 3)
        return budget.made(method(value))

    return grow


def _stripping(name: str) -> Method:
    method = getattr(str, name)

    def strip(budget: Operations, value: str, characters: str | None = None) -> str:
        if characters is None and len(value) < _SHORT:
            stripped: str = method(value)
            budget.steps -= len(stripped) >> 2
            return stripped
        if characters is not None and len(characters) > _LONGEST_SET:
            budget.refuse(f"calls {name} with {len(characters)} characters")
        budget.spend(len(value) >> 8)
        stripped = method(value, characters)
        budget.spend((len(value) - len(stripped)) * (1 + len(characters or "")) >> 6)
        return value if len(stripped) == len(value) else budget.made(stripped)

    return strip


def _padding(name: str) -> Method:
    method = getattr(str, name)

    def pad(budget: Operations, value: str, width: int, *fill: str) -> str:
        budget.allow_length(max(len(value), width))
        return budget.made(method(value, width, *fill))

    return pad


def _beginning(name: str) -> Method:
    """`startswith` and `endswith`, whose argument may be a tuple."""
    method = getattr(str, name)

    def begins(budget: Operations, value: str, prefix: str | tuple[str, ...], *ends: int) -> bool:
        if isinstance(prefix, tuple):
            budget.spend(sum(1 + (len(text) >> 8) for text in prefix if isinstance(text, str)))
        elif len(prefix) > _SHORT:
            budget.spend(len(prefix) >> 8)
        return bool(method(value, prefix, *ends))

    return begins


def _finding(name: str) -> Method:
    method = getattr(str, name)

    def find(budget: Operations, value: str, needle: str, *ends: int) -> Any:
        budget.spend(steps_to_search(value, needle))
        return _paid(budget, method(value, needle, *ends))

    return find


def _rfind(budget: Operations, value: str, needle: str, *ends: int) -> int:
    budget.spend(steps_to_search(value, needle))
    if is_linear_backwards(value, needle):
        return value.rfind(needle, *ends)
    if ends:
        budget.refuse("looks backwards for a long text in a part of another")
    return rfind(value, needle)


def _rindex(budget: Operations, value: str, needle: str, *ends: int) -> int:
    found = _rfind(budget, value, needle, *ends)
    if found < 0:
        raise ValueError("substring not found")
    return found


def _rpartition(budget: Operations, value: str, needle: str) -> tuple[str, str, str]:
    budget.spend(steps_to_search(value, needle))
    split = value.rpartition if is_linear_backwards(value, needle) else lambda text: rpartition(value, text)
    return _paid(budget, split(needle))  # type: ignore[no-any-return]


def _split(budget: Operations, value: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    return _split_with(budget, value, sep, maxsplit, value.split)


def _rsplit(budget: Operations, value: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    linear = sep is None or is_linear_backwards(value, sep)
    return _split_with(budget, value, sep, maxsplit, value.rsplit if linear else lambda *args: rsplit(value, *args))


def _split_with(
    budget: Operations, value: str, sep: str | None, maxsplit: int, split: Callable[..., list[str]]
) -> list[str]:
    """Splits no further than the widest list, and refuses if that was reached."""
    budget.spend(steps_to_search(value, sep if sep is not None else "  "))
    if 0 <= maxsplit <= budget.widest:
        return _paid(budget, split(sep, maxsplit))  # type: ignore[no-any-return]
    pieces = split(sep, budget.widest)
    if len(pieces) > budget.widest:
        budget.allow_width(len(pieces))
        pieces = split(sep, budget.widest)
        budget.allow_width(len(pieces))
    return _paid(budget, pieces)  # type: ignore[no-any-return]


def line_count(value: str) -> int:
    """At most this many lines has a text by `splitlines`."""
    return 1 + sum(map(value.count, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


def _splitlines(budget: Operations, value: str, keepends: bool = False) -> list[str]:
    budget.spend(len(value) >> 4)
    budget.allow_width(line_count(value))
    return _paid(budget, value.splitlines(keepends))  # type: ignore[no-any-return]


def replace_text(budget: Operations, value: str, old: str, new: str, count: int = -1) -> str:
    """`value.replace(old, new, count)`, its length foreseen."""
    budget.spend(2 * steps_to_search(value, old))
    found = value.count(old)
    if 0 <= count < found:
        found = count
    budget.allow_length(len(value) + found * (len(new) - len(old)))
    return budget.made(value.replace(old, new, count)) if found else value


def join_texts(budget: Operations, separator: str, values: Any) -> str:
    """`separator.join(values)`, its length foreseen."""
    texts = budget.collect(values)
    length = sum(map(len, texts)) if all(isinstance(text, str) for text in texts) else 0
    budget.allow_length(length + len(separator) * len(texts))
    return budget.made(separator.join(texts))


def _get(budget: Operations, value: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return default if isinstance(key, tuple) else value.get(budget.key(key), default)


def _cheap(name: str) -> Method:
    """A method that takes the same time whatever it is called on."""

    return lambda _, value: getattr(value, name)()


def _copied(budget: Operations, value: Any) -> Any:
    budget.allow_width(len(value))
    budget.spend(len(value) * 4)
    return value.copy()


def _index(budget: Operations, value: list[Any], item: Any, *ends: int) -> int:
    where = slice(ends[0] if ends else None, ends[1] if len(ends) > 1 else None)
    found = budget.position(value[where], item)
    if found is None:
        raise ValueError("the list does not hold it")
    return found + where.indices(len(value))[0]


def _count(budget: Operations, value: list[Any], item: Any) -> int:
    budget.spend(len(value))
    return sum(1 for other in value if other is item or other == budget.comparable(item))


def _paid(budget: Operations, result: Any) -> Any:
    """What was made: 64 bytes for each piece of a list, and the characters of all of them."""
    if isinstance(result, str):
        return budget.made(result)
    if isinstance(result, list | tuple):
        budget.spend(len(result) * 8)
        for piece in result:
            budget.made(piece)
    return result


_SCANNING = (
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper"
)
_TEXT: dict[str, Method] = {
    **{name: _scanning(name) for name in f"{_SCANNING} removeprefix removesuffix".split()},
    **{name: _growing(name, 3) for name in ("upper", "lower", "title", "capitalize", "casefold", "swapcase")},
    **{name: _stripping(name) for name in ("strip", "lstrip", "rstrip")},
    **{name: _padding(name) for name in ("center", "ljust", "rjust", "zfill")},
    **{name: _beginning(name) for name in ("startswith", "endswith")},
    **{name: _finding(name) for name in ("find", "index", "count", "partition")},
    "rfind": _rfind, "rindex": _rindex, "rpartition": _rpartition,
    "split": _split, "rsplit": _rsplit, "splitlines": _splitlines,
    "replace": replace_text, "join": join_texts, "format": format_text,
}  # fmt: skip

METHODS: dict[type, dict[str, Method]] = {
    str: _TEXT,
    dict: {"get": _get, "copy": _copied, **{name: _cheap(name) for name in ("keys", "values", "items")}},
    list: {"index": _index, "count": _count, "copy": _copied},
    tuple: {"index": _index, "count": _count},
    int: {"bit_length": _cheap("bit_length")},
    float: {"is_integer": _cheap("is_integer")},
}


def call_method(budget: Operations, method: BuiltinMethodType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a method of a text, a list or a dictionary. Raises TypeError for one that is not listed."""
    allowed = METHODS.get(type(method.__self__), {}).get(method.__name__)
    if allowed is None:
        raise TypeError(f"templates cannot call {method.__name__!r}")
    return allowed(budget, method.__self__, *args, **kwargs)
