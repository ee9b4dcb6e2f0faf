"""A bar is as long as its cost on the scale of all, made of as many different signs as the cost has terms."""

import math

from hypothesis import given
from hypothesis import strategies as st

from warmroute.cli.explain_bars import Bars

_TERMS = st.dictionaries(st.sampled_from("abcde"), st.floats(0.0, 1e6), min_size=1)


def bars_of(*terms: dict[str, float]) -> Bars:
    return Bars.of(terms, [sum(each.values()) for each in terms])


def plain(bars: Bars, terms: dict[str, float]) -> str:
    return bars.bar(terms).plain


def test_terms_stand_one_after_the_other_on_one_scale() -> None:
    first, second = {"prefill": 10.0, "queue": 20.0, "room": 0.0}, {"prefill": 3.0, "queue": 1.0, "room": 0.0}
    bars = bars_of(first, second)
    assert bars.terms == ("prefill", "queue")
    assert plain(bars, first) == "#" * 10 + "=" * 20
    assert plain(bars, second) == "###="
    assert [bars.sign(term).plain for term in bars.terms] == ["#", "="]


def test_terms_below_0_stand_to_the_left_of_an_axis() -> None:
    first, second = {"saved": -20.0, "queue": 10.0}, {"saved": 0.0, "queue": 5.0}
    bars = bars_of(first, second)
    assert plain(bars, first) == "#" * 20 + "|" + "=" * 10
    assert plain(bars, second) == " " * 20 + "|" + "=" * 5


def test_costs_that_are_no_sums_have_no_bars() -> None:
    assert not Bars.of([{"rank": 1.0}], [0.0]).drawn
    assert not Bars.of([{"rank": None}], [None]).drawn
    assert not bars_of({"prefill": 0.0}).drawn
    assert plain(bars_of({"prefill": 0.0}), {"prefill": 0.0}) == ""


@given(st.lists(_TERMS, min_size=1, max_size=6))
def test_a_bar_is_as_long_as_its_cost(terms: list[dict[str, float]]) -> None:
    bars = bars_of(*terms)
    most = max(sum(each.values()) for each in terms)
    assert bars.drawn == (most > 0.0)
    for each in terms:
        if bars.drawn:
            drawn = plain(bars, {name: value for name, value in each.items() if name in bars.terms})
            assert abs(len(drawn) - 30 * sum(each.values()) / most) <= 0.5 + 1e-6
            assert len(set(drawn)) <= len(each)


@given(st.lists(_TERMS, min_size=1, max_size=6), st.sampled_from("abcde"))
def test_every_axis_is_in_one_place(terms: list[dict[str, float]], negative: str) -> None:
    signed = [{name: -value if name == negative else value for name, value in each.items()} for each in terms]
    bars = bars_of(*signed)
    if bars.left:
        assert {plain(bars, each).index("|") for each in signed} == {bars.left}
        assert all(math.isfinite(len(plain(bars, each))) for each in signed)
