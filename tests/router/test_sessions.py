"""A session counts where tokens are missing, and only there."""

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.fleet import BLOCK_SIZE, Fleet, blocks
from warmroute.block import Namespace, Tier
from warmroute.openai_api import Match
from warmroute.router import Decision, Outcome, RouteRequest
from warmroute.router.sessions import LONGEST_NAME, Sessions

PROMPT = blocks("a", "b", "c", "d")


def untold(fleet: Fleet, session: str | None = "s", tokens: int = 10_000) -> RouteRequest:
    return dataclasses.replace(fleet.request(None), prompt_tokens=tokens, session=session)


def told(fleet: Fleet, ids: Sequence[int] = PROMPT, session: str | None = "s", complete: bool = True) -> RouteRequest:
    return dataclasses.replace(fleet.request(list(ids)), session=session, complete=complete)


def answer(fleet: Fleet, decision: Decision, prompt_tokens: int | None = 9_000) -> None:
    ended = Outcome(True, False, 1.0, status=200, prompt_tokens=prompt_tokens, output_tokens=100)
    fleet.router.settle(decision, ended)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(["A", "B", "C"])


def test_an_untold_prompt_goes_where_its_session_was_answered(fleet: Fleet) -> None:
    first = fleet.route(untold(fleet))
    assert (first.cached_tokens, first.request.match) == (0, Match.NONE)
    answer(fleet, first)
    for _ in range(10):
        again = fleet.route(untold(fleet))
        assert again.worker is first.worker
        assert (again.cached_tokens, again.chosen.session_tokens) == (9_100, 9_100)
        answer(fleet, again)


def test_an_overloaded_worker_loses_its_session(fleet: Fleet) -> None:
    home = fleet.route(untold(fleet))
    answer(fleet, home)
    fleet.router.table.book(home.worker, "other", 50_000, None)
    assert fleet.route(untold(fleet)).worker is not home.worker


def test_never_more_than_all_but_one_token(fleet: Fleet) -> None:
    answer(fleet, fleet.route(untold(fleet)), prompt_tokens=50_000)
    assert fleet.route(untold(fleet, tokens=100)).cached_tokens == 99


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), st.integers(0, 100_000))
def test_a_session_never_counts_when_the_ids_are_told(names: list[str], left: int) -> None:
    plain, named = Fleet(["A", "B"]), Fleet(["A", "B"])
    for fleet in (plain, named):
        fleet.holds("B", PROMPT)
        answer(fleet, fleet.route(untold(fleet)), prompt_tokens=left)
        fleet.rng.seed(1)
    with_session = named.route(told(named, blocks(*names)))
    without = plain.route(told(plain, blocks(*names), session=None))
    assert with_session.cached_tokens == without.cached_tokens
    assert [cost.total for cost in with_session.costs] == [cost.total for cost in without.costs]
    assert not any(line.session_tokens for line in with_session.considered)


def test_where_a_beginning_is_told_the_session_counts_only_on_top_of_all_of_it(fleet: Fleet) -> None:
    fleet.holds("A", PROMPT)
    fleet.holds("B", PROMPT[: 2 * BLOCK_SIZE])

    def beginning() -> RouteRequest:
        return dataclasses.replace(told(fleet, complete=False), prompt_tokens=10_000)

    home = fleet.route(beginning())
    assert (fleet.name_of(home), home.cached_tokens, home.request.match) == ("A", len(PROMPT), Match.TEXT_PREFIX)
    answer(fleet, home)
    again = fleet.route(beginning())
    assert (fleet.name_of(again), again.cached_tokens, again.chosen.session_tokens) == ("A", 9_100, 9_100 - len(PROMPT))
    hashes = [hash(("A", tuple(PROMPT[: (i + 1) * BLOCK_SIZE]), Tier.DEVICE, BLOCK_SIZE)) for i in range(4)]
    fleet.router.index.remove(home.lane.key, Tier.DEVICE, hashes[3:])
    answer(fleet, again)
    later = fleet.route(beginning(), now=1_000.0)
    assert later.chosen.session_tokens == 0, "what is told is missing there already"


def test_other_models_and_salts_are_other_sessions(fleet: Fleet) -> None:
    answer(fleet, fleet.route(untold(fleet)))
    salted = dataclasses.replace(untold(fleet), namespace=Namespace(salt="x"))
    any_model = dataclasses.replace(untold(fleet), model=None)
    for request in (untold(fleet, "t"), untold(fleet, None), salted, any_model):
        assert fleet.route(request).cached_tokens == 0


@pytest.mark.parametrize(
    "ended",
    [
        Outcome(False, True, 1.0),
        Outcome(False, False, 1.0, status=200, prompt_tokens=9_000),
        Outcome(True, False, 1.0, status=400),
    ],
    ids=["worker failed", "client gone", "refused"],
)
def test_only_whole_answers_count(fleet: Fleet, ended: Outcome) -> None:
    fleet.router.settle(fleet.route(untold(fleet)), ended)
    assert len(fleet.router.sessions) == 0


def test_without_the_engines_count_the_estimate_is_taken(fleet: Fleet) -> None:
    answer(fleet, fleet.route(untold(fleet, tokens=5_000)), prompt_tokens=None)
    assert fleet.route(untold(fleet)).cached_tokens == 5_100


def test_it_is_forgotten_with_the_worker_its_restart_and_its_ranks(fleet: Fleet) -> None:
    def home() -> Decision:
        decision = fleet.route(untold(fleet))
        answer(fleet, decision)
        return decision

    fleet.router.came_up(home().worker)
    assert fleet.route(untold(fleet)).cached_tokens == 0
    fleet.router.set_ranks(home().worker, (0, 1))
    assert fleet.route(untold(fleet)).cached_tokens == 0
    fleet.router.forget(home().worker)
    assert fleet.route(untold(fleet)).cached_tokens == 0


def test_it_is_forgotten_when_the_engine_clears_its_cache(fleet: Fleet) -> None:
    for name in fleet.workers:
        fleet.holds(name, PROMPT)
    home = fleet.route(untold(fleet), now=10.0)
    answer(fleet, home)
    assert fleet.route(untold(fleet), now=11.0).cached_tokens == 9_100
    fleet.router.index.clear(home.lane.key)
    assert fleet.route(untold(fleet), now=12.5).cached_tokens == 0
    fleet.holds(fleet.name_of(home), blocks("x", "y", "z", "u", "v", "w"))
    assert fleet.route(untold(fleet), now=14.0).cached_tokens == 0, "and stays so when the cache fills again"


def test_sessions_are_bounded_and_the_oldest_go_first(fleet: Fleet) -> None:
    fleet.router.sessions = Sessions(fleet.router.index, most=3)
    for name in ("a", "b", "c", "a", "d"):
        answer(fleet, fleet.route(untold(fleet, name)))
    answer(fleet, fleet.route(untold(fleet, "x" * (LONGEST_NAME + 1))))
    assert len(fleet.router.sessions) == 3
    held = {name for name in "abcd" if fleet.router.sessions.held(untold(fleet, name)) is not None}
    assert held == {"c", "a", "d"}
