"""What is said to change a decision does so, and one step less does not: the policy is asked, all steps are tried."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.decided import BLOCK, candidate, cheapest_positions, decide, fleets
from warmroute.block import Overlap
from warmroute.diagnostics.counterfactual import Change, counterfactual, runner_up
from warmroute.diagnostics.lever import Figure, Lever, towards_the_best, towards_the_worst
from warmroute.policy import POLICIES, Candidate, Cost, Policy, PolicyRequest, cheapest
from warmroute.router import Decision
from warmroute.worker import Load

PROMPT = 100 * BLOCK
_LOOKING = ("warmroute", "weighted", "longest-prefix", "least-loaded")


def found(decision: Decision) -> tuple[int, dict[tuple[int, Figure], Change]]:
    """The runner-up, and the changes by the candidate and the figure."""
    rival = runner_up(decision)
    assert rival is not None
    return rival, {(each.position, each.figure): each for each in counterfactual(decision, rival).changes}


def levers(decision: Decision, rival: int) -> dict[tuple[int, Figure], Lever]:
    mine, theirs = decision.candidates[rival], decision.candidates[decision.position]
    all_of = {rival: towards_the_best(mine), decision.position: towards_the_worst(theirs)}
    return {(position, lever.figure): lever for position, of_one in all_of.items() for lever in of_one}


def asked_with(decision: Decision, position: int, changed: Candidate) -> Sequence[Cost]:
    candidates = [*decision.candidates[:position], changed, *decision.candidates[position + 1 :]]
    return decision.decided_by.costs(decision.asked, candidates, random.Random(5))


def surely_other(decision: Decision, rival: int, position: int, changed: Candidate) -> bool:
    """Whether whoever `cheapest` may return is the runner-up, or is not the winner, with the candidate changed."""
    least = cheapest_positions(asked_with(decision, position, changed))
    return least == {rival} if position == rival else decision.position not in least


def steps_of(lever: Lever, needed: int) -> int:
    """The steps by which the figure gets to a value."""
    size = lever.candidate.block_size if lever.figure is Figure.CACHED_TOKENS else 1
    now = lever.figure.of(lever.candidate)
    return abs(needed // size - now // size)


def up_to(steps: int) -> list[int]:
    """All numbers of steps, or some hundred of very many; with the last one and the one before."""
    return list(range(1, steps + 1)) if steps <= 300 else [*range(1, steps - 1, -(-steps // 100)), steps - 1, steps]


@given(fleets(), st.sampled_from(_LOOKING), st.floats(1.0, 500.0), st.integers(0, 9))
@settings(deadline=None)
def test_the_fewest_steps_are_found_that_change_the_decision(
    fleet: list[Candidate], policy: str, output_tokens: float, seed: int
) -> None:
    decision = decide(POLICIES[policy](), fleet, output_tokens, seed)
    rival, changes = found(decision)
    every = levers(decision, rival)
    assert set(changes) == set(every)
    for at, lever in every.items():
        position, change = at[0], changes[at]
        assert change.now == lever.figure.of(lever.candidate)
        steps = lever.steps if change.needed is None else steps_of(lever, change.needed)
        turned = [n for n in up_to(steps) if surely_other(decision, rival, position, lever.moved(n))]
        assert turned == ([] if change.needed is None else [steps]), at


@given(fleets(), st.integers(0, 9))
@settings(deadline=None)
def test_a_change_flips_the_choice_whatever_chance_says(fleet: list[Candidate], seed: int) -> None:
    decision = decide(POLICIES["warmroute"](), fleet, seed=seed)
    rival, changes = found(decision)
    for (position, figure), lever in levers(decision, rival).items():
        needed = changes[position, figure].needed
        if needed is None:
            continue
        costs = asked_with(decision, position, lever.moved(steps_of(lever, needed)))
        chosen = {cheapest(costs, random.Random(number)) for number in range(8)}
        assert chosen == {rival} if position == rival else decision.position not in chosen


class Tabled:
    """Any cost whatever for each number of requests."""

    name = "tabled"
    unit = "tables"

    def __init__(self, table: Sequence[float]) -> None:
        self._table = table

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        figures = [self._table[candidate.load.requests % len(self._table)] for candidate in candidates]
        return [Cost(figure, {"table": figure}) for figure in figures]


@given(st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=40), st.lists(st.integers(0, 60), min_size=2, max_size=4))
@settings(deadline=None)
def test_what_is_said_is_true_of_policies_without_any_order(table: list[float], requests: list[int]) -> None:
    fleet = [candidate(number, PROMPT, load=Load(each)) for number, each in enumerate(requests)]
    decision = decide(Tabled(table), fleet)
    rival, changes = found(decision)
    for at, change in changes.items():
        lever = levers(decision, rival)[at]
        if change.needed is not None:
            steps = steps_of(lever, change.needed)
            assert surely_other(decision, rival, at[0], lever.moved(steps))
            assert steps == 1 or not surely_other(decision, rival, at[0], lever.moved(steps - 1))


def test_the_figures_can_be_computed_on_paper() -> None:
    """By `weighted`, 0.9 for a block and 20 for a request: 100 blocks with 3 requests, 30, beat 70 with 2, 23."""
    fleet = [
        candidate(0, PROMPT + 1, Overlap(device=100), Load(requests=3, decoding=3)),
        candidate(1, PROMPT + 1, Overlap(device=70), Load(requests=2, decoding=2)),
    ]
    rival, changes = found(decide(POLICIES["weighted"](), fleet))
    assert rival == 1
    assert {at: (change.now, change.needed) for at, change in changes.items()} == {
        (1, Figure.CACHED_TOKENS): (70 * BLOCK, 78 * BLOCK),
        (1, Figure.REQUESTS): (2, 1),
        (0, Figure.CACHED_TOKENS): (100 * BLOCK, 92 * BLOCK),
        (0, Figure.REQUESTS): (3, 4),
        (0, Figure.QUEUED_TOKENS): (0, None),
    }


@pytest.mark.parametrize(("policy", "why"), [("random", "draws lots"), ("round-robin", "whatever workers hold")])
def test_where_nothing_decides_that_is_said(policy: str, why: str) -> None:
    fleet = [candidate(number, PROMPT, Overlap(device=number), Load(number)) for number in range(4)]
    decision = decide(POLICIES[policy](), fleet)
    rival = runner_up(decision)
    assert rival is not None
    told = counterfactual(decision, rival)
    assert (told.changes, told.wins_if_idle) == ((), None)
    assert told.unchangeable is not None
    assert why in told.unchangeable


def test_an_idle_runner_up_wins_where_no_single_figure_of_its_load_does() -> None:
    class Busy:
        name = "busy"
        unit = "1 for the busy"

        def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
            busy = [float(each.load.requests > 0 or each.load.queued_tokens > 0) for each in candidates]
            return [Cost(each + number / 10, {}) for number, each in enumerate(busy)]

    load = Load(requests=2, queued_tokens=50)
    fleet = [candidate(0, PROMPT, load=load), candidate(1, PROMPT, load=load)]
    told = counterfactual(decide(Busy(), fleet), 1)
    assert [change.needed for change in told.changes if change.position == 1] == [None, None, None]
    assert told.wins_if_idle is True


def failing(policy: Policy, fails: Callable[[Sequence[Candidate]], bool]) -> Policy:
    """A policy that cannot say what some candidates cost."""

    class Failing:
        name = "failing"
        unit = policy.unit

        def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
            if fails(candidates):
                raise ZeroDivisionError("nobody has anything to do")
            return policy.costs(request, candidates, rng)

    return Failing()


def test_a_policy_that_fails_on_other_workers_is_said_to() -> None:
    policy = failing(POLICIES["warmroute"](), lambda candidates: not any(each.load.requests for each in candidates))
    fleet = [candidate(0, PROMPT, Overlap(device=50)), candidate(1, PROMPT, load=Load(requests=1))]
    told = counterfactual(decide(policy, fleet), 1)
    assert told.changes == ()
    assert told.unchangeable == (
        "the policy failed when it was asked about other workers (ZeroDivisionError: nobody has anything to do)"
    )


def test_of_equals_each_step_decides() -> None:
    load = Load(requests=2, decoding=2, queued_tokens=100)
    fleet = [candidate(number, PROMPT, Overlap(device=30), load) for number in range(2)]
    decision = decide(POLICIES["warmroute"](), fleet)
    rival, changes = found(decision)
    assert rival != decision.position
    needed = {at: change.needed for at, change in changes.items()}
    assert needed == {
        (rival, Figure.CACHED_TOKENS): 31 * BLOCK,
        (rival, Figure.REQUESTS): 1,
        (rival, Figure.QUEUED_TOKENS): 99,
        (decision.position, Figure.CACHED_TOKENS): 29 * BLOCK,
        (decision.position, Figure.REQUESTS): 3,
        (decision.position, Figure.QUEUED_TOKENS): 101,
    }


def test_one_worker_has_no_runner_up() -> None:
    assert runner_up(decide(POLICIES["warmroute"](), [candidate(0, PROMPT)])) is None


def test_asking_leaves_the_decision_as_it_was() -> None:
    fleet = [candidate(0, PROMPT, Overlap(device=9)), candidate(1, PROMPT, load=Load(4, 4))]
    decision = decide(POLICIES["warmroute"](), fleet)
    before = replace(decision, candidates=[replace(each) for each in fleet], costs=list(decision.costs))
    first = counterfactual(decision, 1)
    assert counterfactual(decision, 1) == first
    assert decision == before
