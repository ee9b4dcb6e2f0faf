"""Token ids of prompts and answers, made when they are needed: a trace's prompts do not fit into memory at once."""

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Tokens(Protocol):
    """A sequence of token ids whose length is known before its ids are made."""

    def __len__(self) -> int: ...

    def ids(self) -> "array[int]":
        """The ids, as an array of type "I"; equal at each call. The caller must not change it."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids that are there already."""

    told: "array[int]"

    def __len__(self) -> int:
        return len(self.told)

    def ids(self) -> "array[int]":
        return self.told


@dataclass(frozen=True, slots=True)
class Text:
    """`count` ids that stand for a text of their own: the first of the endless text that has this `seed`.

    A shorter text of the same seed is the beginning of a longer one.
    """

    seed: int
    count: int

    def __len__(self) -> int:
        return self.count

    def ids(self) -> "array[int]":
        made = array("I")
        made.frombytes(random.Random(self.seed).randbytes(made.itemsize * self.count))
        return made


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts one after the other; what several prompts begin with is one part that they share."""

    parts: Sequence[Tokens]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def ids(self) -> "array[int]":
        made = array("I")
        for part in self.parts:
            made.extend(part.ids())
        return made
