"""The operators of the template language, each paid for from the budget before it is carried out.

Generated code calls these by name: `budget.plus((a, b, c))` for `{{ a + b + c }}`; see `code`.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from jinja2 import Environment
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, Undefined
from markupsafe import Markup

from warmroute.tokenizer.template_bounds.budget import VIEWS, Budget
from warmroute.tokenizer.template_bounds.namespace import TemplateNamespace
from warmroute.tokenizer.template_bounds.search import steps_to_search

PLAIN = frozenset({str, int, float, bool, type(None)})
_COLLECTIONS: tuple[type, ...] = (list, tuple, dict, TemplateNamespace, *VIEWS)

_LARGEST_NUMBER = 2**64
"""Of whole numbers. Nobody counts farther in a prompt; arithmetic on longer ones takes long, and ones that leave the
same remainder by 2**61 - 1 make a dictionary quadratic."""

_SLICE_OF_PIECES = 4096
"""Pieces joined by one call into C: 0.1 ms."""

_STEPS_PER_NUMBER = 8  # Written as a text it takes 50 bytes.

_SHORT = 2**12
"""Characters that are compared in the time that a node of syntax stands for."""

_LONGEST_FORMAT = 2**14
_NUMBER = re.compile(r"\d+")
_STAR = re.compile(r"%[#0\- +\d.]*\*")


class Operations(Budget):
    """A budget, and the operators that are paid for from it."""

    __slots__ = ("environment",)

    def __init__(self, environment: Environment, request: Mapping[str, Any]) -> None:
        """`environment` looks up the attributes that a format names; `request`: the variables of the rendering."""
        super().__init__(request)
        self.environment = environment

    def text(self, value: Any) -> str:
        """`str(value)`, weighed first."""
        kind = type(value)
        if kind is str:
            return value  # type: ignore[no-any-return]
        if kind in PLAIN or isinstance(value, str):
            self.steps -= _STEPS_PER_NUMBER
            return str(value)
        if isinstance(value, _COLLECTIONS):
            self.allow_length(self.printed_length(value))
        return self.made(str(value))

    def concat(self, pieces: Sequence[str]) -> str:
        """The pieces, which a block has written, as one text."""
        if len(pieces) > _SLICE_OF_PIECES:
            starts = range(0, len(pieces), _SLICE_OF_PIECES)
            return self.concat([self.concat(pieces[start : start + _SLICE_OF_PIECES]) for start in starts])
        self.allow_length(sum(map(len, pieces)))
        return self.made("".join(pieces))

    def gather(self, pieces: Iterable[str]) -> str:
        """The pieces as one text, joined as they come."""
        remaining = iter(pieces)
        joined: list[str] = []
        while some := list(islice(remaining, _SLICE_OF_PIECES)):
            joined.append(self.concat(some))
        return self.concat(joined)

    def join(self, values: Sequence[Any]) -> str:
        """`a ~ b ~ c`."""
        return self.concat([value if type(value) is str else self.text(value) for value in values])

    def plus(self, values: Sequence[Any]) -> Any:
        """`a + b + c`, from left to right."""
        length = 0
        for value in values:
            if type(value) is not str:
                return self._sum(values)
            length += len(value)
        self.allow_length(length)
        return self.made("".join(values))

    def _sum(self, values: Sequence[Any]) -> Any:
        total = values[0]
        for value in values[1:]:
            total = self._add(total, value)
        return total

    def _add(self, left: Any, right: Any) -> Any:
        if isinstance(left, str) and isinstance(right, str):
            escaped = isinstance(left, Markup) or isinstance(right, Markup)  # `<` becomes `&lt;`, five times as long.
            self.allow_length((len(left) + len(right)) * (5 if escaped else 1))
            return self.made(left + right)
        if isinstance(left, list | tuple) and isinstance(right, list | tuple):
            self.allow_width(len(left) + len(right))
            self.spend((len(left) + len(right)) >> 1)
        return self.number(left + right)

    def minus(self, left: Any, right: Any) -> Any:
        return self.number(left - right)

    def times(self, left: Any, right: Any) -> Any:
        for values, count in ((left, right), (right, left)):
            if isinstance(count, int) and isinstance(values, str):
                self.allow_length(len(values) * max(count, 0))
                return self.made(values * count)
            if isinstance(count, int) and isinstance(values, list | tuple):
                self.allow_width(len(values) * max(count, 0))
                self.spend((len(values) * max(count, 0)) >> 1)
                return values * count
        return self.number(left * right)

    def divided(self, left: Any, right: Any) -> Any:
        return left / right

    def floor_divided(self, left: Any, right: Any) -> Any:
        return left // right

    def power(self, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 64:
            self.refuse("raises a number to a power that nobody needs")
        return self.number(left**right)

    def modulo(self, left: Any, right: Any) -> Any:
        """A remainder, or a text with `%s` and the like filled in."""
        if not isinstance(left, str):
            return left % right
        if isinstance(left, Markup):
            raise SecurityError("a text that is marked as safe cannot be a format")
        self.allow_format(left)
        if _STAR.search(left):
            self.refuse("takes the width of a field from a value")
        length = self.printed_length(right) if isinstance(right, _COLLECTIONS) else len(self.text(right))
        fields = 1 if isinstance(right, tuple) else left.count("%")
        self.allow_length(len(left) + length * fields)
        return self.made(left % right)

    def allow_format(self, form: str) -> None:
        """Pays for reading a format of either kind, and for the widths in it, which are the numbers in it."""
        if len(form) > _LONGEST_FORMAT:
            self.refuse("uses a text as a format that is too long for one")
        self.spend(len(form) >> 3)
        self.allow_length(sum(int(number[:9]) for number in _NUMBER.findall(form)))

    def number(self, value: Any) -> Any:
        """`value`, unless it is too large a whole number."""
        if type(value) is int and not -_LARGEST_NUMBER < value < _LARGEST_NUMBER:
            self.refuse("counts farther than anybody needs")
        return value

    def cut(self, value: Any, part: slice) -> Any:
        """`value[a:b:c]`."""
        if isinstance(value, str):
            return self.made(value[part])
        if isinstance(value, list | tuple):
            self.spend(len(value) >> 1)
        return value[part]

    def key(self, value: Any) -> Any:
        """`value`, if a dictionary may have it: hashing a tuple is recursive, and Python does not check its depth."""
        kind = type(value)
        if kind is not str:
            if kind is int:
                self.number(value)
            elif kind not in PLAIN and not isinstance(value, str | Undefined):
                raise SecurityError(f"{kind.__name__!r} cannot be a key")
        return value

    def comparable(self, value: Any) -> Any:
        """`value`, paid for as one side of a comparison, which costs no more than the smaller side."""
        kind = type(value)
        if kind is str:
            if len(value) > _SHORT:
                self.spend(len(value) >> 8)
        elif kind not in PLAIN and isinstance(value, _COLLECTIONS):
            self.weigh(value)
        return value

    def contains(self, item: Any, values: Any) -> bool:
        """`item in values`."""
        if isinstance(values, str):
            if isinstance(item, str):
                self.spend(steps_to_search(values, item))
            return item in values
        if type(values) is range and type(item) is int:
            return item in values
        if type(values) is dict:
            return not isinstance(item, tuple) and self.key(item) in values
        if isinstance(values, list | tuple) and (type(item) in PLAIN and (type(item) is not str or len(item) < 256)):
            self.spend(len(values) >> 1)
            return item in values
        return self.position(values, item) is not None

    def position(self, values: Any, item: Any) -> int | None:
        """Where `item` is among `values`, found one by one."""
        for i, value in enumerate(values):
            self.spend(1)
            if value is item or value == self.comparable(item):
                return i
        return None

    def tick(self, steps: int) -> bool:
        """Pays for the condition of a loop's `if`; true, so that the condition decides."""
        self.spend(steps)
        return True


class BudgetedContext(Context):
    """A template's variables, and the budget of the rendering that they belong to."""

    budget: Operations

    def derived(self, locals: dict[str, Any] | None = None) -> "BudgetedContext":
        """Jinja asks for one where a scoped block gets the variables around it."""
        context = super().derived(locals)
        assert isinstance(context, BudgetedContext)
        context.budget = self.budget
        return context


def budget_of(context: Context) -> Operations:
    """The budget of the rendering that `context` belongs to."""
    return context.budget  # type: ignore[attr-defined,no-any-return]


BINARY: dict[str, str] = {
    "Sub": "minus",
    "Mul": "times",
    "Div": "divided",
    "FloorDiv": "floor_divided",
    "Mod": "modulo",
    "Pow": "power",
}
"""The method of each operator's node in jinja's syntax tree; chains of Add are `plus`."""

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "eq": operator.eq, "equalto": operator.eq, "!=": operator.ne, "ne": operator.ne,
    ">": operator.gt, "gt": operator.gt, "greaterthan": operator.gt, ">=": operator.ge, "ge": operator.ge,
    "<": operator.lt, "lt": operator.lt, "lessthan": operator.lt, "<=": operator.le, "le": operator.le,
}  # fmt: skip
"""The tests that compare, by their names."""
