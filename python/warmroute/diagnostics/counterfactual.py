"""What would have had to change for a request to go to another worker.

Nothing here knows how a policy reckons. It is asked again with one figure of one worker changed, and what it says then
counts: so this holds for any policy, and nothing is told that was not seen. Asked anew is the choice among the workers
that were considered, not who is considered, nor which of its ranks stands for a worker.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from warmroute.diagnostics.lever import Figure, Lever, idle, towards_the_best, towards_the_worst
from warmroute.policy import Candidate, Cost
from warmroute.router import Decision

_CHANCE = "the policy draws lots, or does not say the same twice, so no change of a worker would decide"
_BLIND = "the policy says the same whatever workers hold and have to do, so no change of a worker would decide"


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of the candidate at `position`, and the nearest value with which the decision surely is another.

    needed: None where none of those tried would do: up to a prompt held whole, nothing of it, no load, `LARGEST_COUNT`.
    """

    position: int
    figure: Figure
    now: int
    needed: int | None


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Changes of the runner-up with which it would win, and changes of the winner with which it would lose.

    wins_if_idle: whether the runner-up would surely win without any load.
    unchangeable: why nothing is known to change the decision, in a sentence; then `wins_if_idle` is None.
    """

    changes: tuple[Change, ...] = ()
    wins_if_idle: bool | None = None
    unchangeable: str | None = None


def runner_up(decision: Decision) -> int | None:
    """The position of the cheapest candidate but for the chosen one; None where there was no other."""
    others = [position for position in range(len(decision.costs)) if position != decision.position]
    return min(others, key=lambda position: decision.costs[position].total, default=None)


def counterfactual(decision: Decision, rival: int) -> Counterfactual:
    """What would have the candidate at `rival` win, and what the winner lose; the policy is asked about 100 times."""
    try:
        return _searched(decision, rival)
    except Exception as error:
        # A policy of a person's own may fail on what it never saw; the decision is worth telling all the same.
        fault = f"{type(error).__name__}: {error}"
        return Counterfactual(unchangeable=f"the policy failed when it was asked about other workers ({fault})")


def _searched(decision: Decision, rival: int) -> Counterfactual:
    winner, costs = decision.position, list(decision.costs)
    if _asked_again(decision, {}) != costs:
        return Counterfactual(unchangeable=_CHANCE)
    better = towards_the_best(decision.candidates[rival])
    worse = towards_the_worst(decision.candidates[winner])
    without_load = _asked_again(decision, {rival: idle(decision.candidates[rival])})
    if without_load == costs and _is_blind(decision, {rival: better, winner: worse}):
        return Counterfactual(unchangeable=_BLIND)
    changes = [_nearest(decision, rival, lever, _wins) for lever in better]
    changes += [_nearest(decision, winner, lever, _loses) for lever in worse]
    return Counterfactual(tuple(changes), without_load is not None and _wins(without_load, rival))


def _asked_again(decision: Decision, changed: Mapping[int, Candidate]) -> list[Cost] | None:
    """What the policy says with other candidates at some positions; None where it draws lots."""
    candidates = [changed.get(position, candidate) for position, candidate in enumerate(decision.candidates)]
    lots = random.Random(0)
    undrawn = lots.getstate()
    costs = decision.decided_by.costs(decision.asked, candidates, lots)
    return list(costs) if lots.getstate() == undrawn else None


def _is_blind(decision: Decision, levers: Mapping[int, Sequence[Lever]]) -> bool:
    """Whether the policy says the same with each of the levers at its end. A large fleet is not searched in vain."""
    ends = ({position: lever.moved(lever.steps)} for position, all_its in levers.items() for lever in all_its)
    return all(_asked_again(decision, end) == list(decision.costs) for end in ends)


def _wins(costs: Sequence[Cost], position: int) -> bool:
    """Whether it is the only cheapest: among equals chance would decide."""
    least = costs[position].total
    return all(least < cost.total for other, cost in enumerate(costs) if other != position)


def _loses(costs: Sequence[Cost], position: int) -> bool:
    """Whether another is cheaper."""
    return any(cost.total < costs[position].total for cost in costs)


def _nearest(decision: Decision, position: int, lever: Lever, turned: Callable[[Sequence[Cost], int], bool]) -> Change:
    """The fewest steps that make the decision another one, found by doubling and then by halving."""

    def turns(steps: int) -> bool:
        costs = _asked_again(decision, {position: lever.moved(steps)})
        return costs is not None and turned(costs, position)

    steps = _fewest(lever.steps, turns)
    needed = None if steps is None else lever.figure.of(lever.moved(steps))
    return Change(position, lever.figure, lever.figure.of(lever.candidate), needed)


def _fewest(most: int, turns: Callable[[int], bool]) -> int | None:
    """A number of 1 to `most` that turns, while one less does not; None where none of those tried does.

    The least one, where all above a number that turns do so as well.
    """
    below = 0
    for above in _doubling(most):
        if turns(above):
            between = range(below + 1, above)
            return below + 1 + bisect_left(between, True, key=turns)
        below = above
    return None


def _doubling(most: int) -> Iterator[int]:
    """1, 2, 4 and so on, and at last `most`."""
    number = 1
    while number < most:
        yield number
        number *= 2
    yield most
