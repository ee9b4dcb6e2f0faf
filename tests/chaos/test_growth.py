"""A leak is a line that rises."""

from pathlib import Path

import pytest
from chaos.growth import Growth, Usage, slope
from chaos.router_process import RouterProcess


def test_the_slope_of_a_line_is_found_through_noise() -> None:
    times = [float(second) for second in range(60)]
    assert slope(times, [5.0 + 0.5 * time for time in times]) == pytest.approx(0.5)
    assert slope(times, [5.0 + 0.5 * time + (-1) ** int(time) for time in times]) == pytest.approx(0.5, abs=0.01)
    assert slope([1.0], [3.0]) == 0.0


def test_a_socket_left_behind_each_second_is_a_leak_and_a_busy_spell_is_none() -> None:
    leaking = [Usage(float(at), 40 + at, 60 + at, 9, 80.0, 50) for at in range(120)]
    assert [leak.split()[0] for leak in _growth(leaking).leaks()] == ["sockets", "files"]
    busy = [Usage(float(at), 40 + 20 * (at % 10 == 5), 60 + 20 * (at % 10 == 5), 9, 80.0, 50) for at in range(120)]
    assert _growth(busy).leaks() == []


def test_what_rises_in_the_warm_up_alone_is_no_leak() -> None:
    warming = [Usage(float(at), min(at, 30), 60, 9, 80.0 + min(at, 30), 50) for at in range(120)]
    assert _growth(warming).leaks() == []


def test_of_a_few_samples_nothing_is_said() -> None:
    assert _growth([Usage(float(at), 40 + 9 * at, 60, 9, 80.0, 50) for at in range(15)]).rises() == {}


def _growth(samples: list[Usage]) -> Growth:
    return Growth(RouterProcess(Path("router.log")), samples)
