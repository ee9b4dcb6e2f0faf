"""An index that is examined while it changes."""

from collections.abc import Iterable, Iterator

import pytest

from warmroute.gateway.index_report import CheckReport, check_of_live
from warmroute.prefix_index import PrefixIndex


class Examined(PrefixIndex):
    """Finds these faults with itself, one after the other; None is none."""

    __slots__ = ("_faults",)

    def __init__(self, faults: Iterable[str | None]) -> None:
        super().__init__()
        self.add_worker(7, 0)
        self._faults: Iterator[str | None] = iter(faults)

    def check_integrity(self) -> None:
        fault = next(self._faults)
        if fault is not None:
            raise AssertionError(fault)


def checked(*faults: str | None) -> tuple[CheckReport, int]:
    """The report, and how often there was a pause."""
    pauses: list[None] = []
    return check_of_live(Examined(faults), lambda: pauses.append(None)), len(pauses)


def test_a_sound_index_is_examined_once() -> None:
    assert checked(None) == (CheckReport(1, 0, ()), 0)


@pytest.mark.parametrize("before", [("a",), ("a", "b"), ("a", "a", "a", "a")])
def test_what_is_blamed_for_changing_is_no_fault_once_an_examination_comes_clean(before: tuple[str, ...]) -> None:
    assert checked(*before, None) == (CheckReport(1, 0, ()), len(before))


def test_what_is_wrong_stays_wrong() -> None:
    report, pauses = checked(*"aaaaa")
    assert (report, pauses) == (CheckReport(1, 0, ("the index contradicts itself: a",)), 5)


def test_where_each_examination_blames_another_block_nothing_is_decided() -> None:
    report, _ = checked(*"abcda")
    assert report.problems == ()
    assert report.undecided is not None
    assert "ask again when it is quieter (the index contradicts itself: a)" in report.undecided


def test_a_real_index_is_sound() -> None:
    assert check_of_live(PrefixIndex(), lambda: None) == CheckReport(0, 0, ())
