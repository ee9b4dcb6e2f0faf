"""Bars of plain characters: the terms of each worker's cost, one after the other, on one scale."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

_SIGNS = "#=+:o*~%@&"
_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
_WIDTH = 30
_AXIS = "|"


@dataclass(frozen=True, slots=True)
class Bars:
    """Terms that are not 0 everywhere, and how much of a cost one character stands for.

    left: characters for terms below 0, which stand to the left of an axis. per_character: 0 where no bar is drawn, as
    costs are not the sums of their terms, or all are 0.
    """

    terms: tuple[str, ...]
    left: int
    per_character: float

    @classmethod
    def of(cls, terms: Sequence[Mapping[str, float | None]], costs: Sequence[float | None]) -> "Bars":
        """Bars for costs of these terms; None stands for what is no finite number."""
        names = dict.fromkeys(name for each in terms for name in each)
        told = tuple(name for name in names if any(each.get(name, 0.0) != 0.0 for each in terms))
        if not all(map(_adds_up, terms, costs)):
            return cls(told, 0, 0.0)
        below = max((sum(_parts(each, -1).values()) for each in terms), default=0.0)
        above = max((sum(_parts(each, 1).values()) for each in terms), default=0.0)
        per_character = (below + above) / _WIDTH
        return cls(told, round(below / per_character) if below else 0, per_character)

    @property
    def drawn(self) -> bool:
        """Whether there are bars."""
        return self.per_character > 0.0

    def sign(self, term: str) -> Text:
        """The character that stands for a term."""
        return self._segment(term, 1)

    def bar(self, terms: Mapping[str, float | None]) -> Text:
        """One worker's terms."""
        if not self.drawn:
            return Text()
        right = list(self._segments(_parts(terms, 1)))
        if not self.left:
            return Text().join(right)
        left = Text().join(reversed(list(self._segments(_parts(terms, -1)))))
        return Text(" " * (self.left - len(left))) + left + Text(_AXIS) + Text().join(right)

    def _segments(self, parts: Mapping[str, float]) -> Iterator[Text]:
        """Rounded where they end, so that the whole bar is as long as its sum."""
        end, drawn = 0.0, 0
        for term, value in parts.items():
            end += value
            until = round(end / self.per_character)
            yield self._segment(term, until - drawn)
            drawn = until

    def _segment(self, term: str, length: int) -> Text:
        number = self.terms.index(term)
        return Text(_SIGNS[number % len(_SIGNS)] * length, style=_COLOURS[number % len(_COLOURS)])


def _parts(terms: Mapping[str, float | None], sign: int) -> dict[str, float]:
    """The sizes of the terms that are above (1) or below (-1) 0."""
    return {name: abs(value) for name, value in terms.items() if value is not None and value * sign > 0.0}


def _adds_up(terms: Mapping[str, float | None], cost: float | None) -> bool:
    known = [value for value in terms.values() if value is not None]
    return cost is not None and len(known) == len(terms) and math.isclose(sum(known), cost, abs_tol=1e-9)
