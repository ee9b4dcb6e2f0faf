"""Times in logs."""

import pytest

from warmroute.request_log.request import BrokenLine
from warmroute.request_log.times import seconds

WHEN = 1_770_982_413.0


@pytest.mark.parametrize(
    "told",
    [
        1_770_982_413,
        1_770_982_413_000,
        1_770_982_413_000_000,
        1_770_982_413_000_000_000,
        "1770982413",
        "1770982413000",
        "2026-02-13T11:33:33Z",
        "2026-02-13T11:33:33",
        "2026-02-13 11:33:33,000",
        "2026-02-13T12:33:33.000000000+01:00",
        "20260213T113333Z",
        "13/Feb/2026:11:33:33 +0000",
    ],
)
def test_one_moment_in_many_words(told: object) -> None:
    assert seconds(told) == WHEN


def test_fractions_are_kept_and_times_of_the_log_s_own_stay() -> None:
    assert seconds("2026-02-13T11:33:33.250Z") == WHEN + 0.25
    assert seconds(1_770_982_413_250) == WHEN + 0.25
    assert seconds(12.5) == 12.5


@pytest.mark.parametrize(
    "told", [None, True, [], {}, "soon", "", float("nan"), float("inf"), 10**400, "9" * 400, 1e300]
)
def test_what_is_no_time_is_said_to_be_none(told: object) -> None:
    with pytest.raises(BrokenLine, match="time"):
        seconds(told)
