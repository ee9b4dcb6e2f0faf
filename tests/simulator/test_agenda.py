"""Order in virtual time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulator.agenda import Agenda


@given(st.lists(st.integers(0, 5)))
def test_actions_come_by_time_and_of_equal_times_as_they_were_entered(times: list[int]) -> None:
    agenda, seen = Agenda(), list[tuple[float, int]]()
    for number, when in enumerate(times):
        agenda.at(when, lambda number: seen.append((agenda.now, number)), number)
    assert len(agenda) == len(times)
    while agenda.advance():
        pass
    assert seen == sorted((float(when), number) for number, when in enumerate(times))
    assert len(agenda) == 0


def test_what_is_entered_meanwhile_takes_its_place() -> None:
    agenda, seen = Agenda(), list[str]()

    def first() -> None:
        seen.append("first")
        agenda.at(agenda.now, seen.append, "at once, after all that was entered before")
        agenda.at(2.0, seen.append, "later")

    agenda.at(1.0, first)
    agenda.at(1.0, seen.append, "second")
    agenda.at(3.0, seen.append, "last")
    while agenda.advance():
        pass
    assert seen == ["first", "second", "at once, after all that was entered before", "later", "last"]
    assert agenda.now == 3.0


def test_nothing_can_be_entered_for_a_time_that_is_over() -> None:
    agenda = Agenda()
    agenda.at(1.0, lambda: None)
    agenda.advance()
    with pytest.raises(AssertionError, match="is over"):
        agenda.at(0.5, lambda: None)
