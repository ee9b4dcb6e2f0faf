"""Things that are the same in several requests but stand in another order in each, put into one."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

ItemT = TypeVar("ItemT")
# Of the text in front of the last thing that both have: more that only one has is another selection, not another order.
_MOST_UNSHARED = 0.1
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The order of all things that several requests have: that in which they were first seen."""

    rank: Mapping[Hashable, int]

    @classmethod
    def of(cls, sequences: Iterable[Sequence[Hashable]]) -> "Arrangement":
        """Of what at least two of the sequences have."""
        rank: dict[Hashable, int] = {}
        seen_in: Counter[Hashable] = Counter()
        for sequence in sequences:
            seen_in.update(set(sequence))
            for key in sequence:
                rank.setdefault(key, len(rank))
        return cls({key: place for key, place in rank.items() if seen_in[key] > 1})

    def arranged(self, items: Sequence[ItemT], keys: Sequence[Hashable]) -> list[ItemT]:
        """The items in that order; those that have no rank stay where they are."""
        places = [at for at, key in enumerate(keys) if key in self.rank]
        ordered = sorted(places, key=lambda at: self.rank[keys[at]])
        moved = list(items)
        for place, source in zip(places, ordered, strict=True):
            moved[place] = items[source]
        return moved


def is_shuffled(left: Sequence[Hashable], right: Sequence[Hashable], weight: Callable[[Hashable], int]) -> bool:
    """Whether two sequences hold the same things, but for a few, in another order; what is behind them all is free."""
    common = set(left) & set(right)
    left_order, right_order = [key for key in left if key in common], [key for key in right if key in common]
    if len(common) < 2 or left_order == right_order or sorted(map(hash, left_order)) != sorted(map(hash, right_order)):
        return False
    unshared = sum(map(weight, _in_front_unshared(left, common) + _in_front_unshared(right, common)))
    return unshared <= 2 * _MOST_UNSHARED * sum(map(weight, left_order))


def _in_front_unshared(keys: Sequence[Hashable], common: set[Hashable]) -> list[Hashable]:
    last = max(at for at, key in enumerate(keys) if key in common)
    return [key for key in keys[:last] if key not in common]


def unnumbered(text: str) -> str:
    """A text without the first number in its first line, which may count it: `Example 3`."""
    first, line_end, rest = text.strip().partition("\n")
    return _NUMBER.sub("#", first, count=1) + line_end + rest


def renumbered(texts: Sequence[str], before: Sequence[str]) -> list[str]:
    """The texts, counted as those that stood there before were counted; as they are where these were not."""
    numbers = [_NUMBER.search(text.strip().partition("\n")[0]) for text in before]
    counted = [int(number.group()) for number in numbers if number is not None and len(number.group()) < 10]
    if len(counted) < len(numbers) or counted != list(range(counted[0], counted[0] + len(counted)) if counted else ()):
        return list(texts)
    return [_NUMBER.sub(str(number), text, count=1) for text, number in zip(texts, counted, strict=True)]
