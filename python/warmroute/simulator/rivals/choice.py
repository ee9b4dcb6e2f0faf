"""From a choice to costs: rivals that follow rules name whom they would take, and everybody else costs one more."""

import random
from collections.abc import Collection, Mapping, Sequence

from warmroute.policy import Candidate, Cost

RANK = "0 for those it would take, 1 for the others"


def taking(chosen: Collection[int], terms: Sequence[Mapping[str, float]]) -> list[Cost]:
    """A cost for each candidate: 0 at the positions in `chosen`, among which chance decides, and 1 elsewhere.

    `terms`: the figures that the choice was made by, one mapping per candidate.
    """
    return [Cost(float(position not in chosen), facts) for position, facts in enumerate(terms)]


def loads(candidates: Sequence[Candidate]) -> list[int]:
    """The requests in flight on each candidate."""
    return [candidate.load.requests for candidate in candidates]


def first_least(values: Sequence[float]) -> int:
    """The position of the least value, the first of equals."""
    return min(range(len(values)), key=values.__getitem__)


def lighter_of(choices: int, among: Sequence[int], load: Sequence[float], rng: random.Random) -> int:
    """Of so many positions drawn at random from `among` the one with the least load, the first drawn of equals.

    "The power of two choices": Mitzenmacher, 2001.
    """
    drawn = rng.sample(among, min(choices, len(among)))
    return min(drawn, key=load.__getitem__)


def is_imbalanced(load: Sequence[int], most_apart: float, most_times: float) -> bool:
    """Whether the heaviest load is more than `most_apart` above the least one and more than `most_times` of it."""
    least, most = min(load), max(load)
    return most - least > most_apart and most > least * most_times
