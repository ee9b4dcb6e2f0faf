import random
from itertools import pairwise
from statistics import fmean, variance

import pytest

from warmroute.simulator.workloads.arrivals import constant_rate, poisson_by_second, poisson_process


def in_seconds(times: list[float], seconds: int) -> list[int]:
    """How many fall into each second; one at its very end belongs to it."""
    counts = [0] * (seconds + 1)
    for at in times:
        counts[int(at) - (at == int(at))] += 1
    return counts


def test_the_number_of_requests_is_kept_whatever_the_draw() -> None:
    for seed in range(20):
        assert len(poisson_by_second(22, 34, random.Random(seed))) == 748
        assert len(poisson_by_second(3.7, 10, random.Random(seed))) == 37
        assert len(constant_rate(9, 30, random.Random(seed))) == 270


def test_each_second_has_a_poisson_count() -> None:
    times = poisson_by_second(20, 3000, random.Random(3))
    counts = in_seconds(times, int(times[-1]))[:-1]
    assert fmean(counts) == pytest.approx(20, abs=0.4)
    assert variance(counts) == pytest.approx(20, rel=0.1)


def test_the_last_request_of_a_second_comes_at_its_end() -> None:
    times = poisson_by_second(5, 40, random.Random(8))
    assert times == sorted(times)
    whole = [at for at in times if at == int(at)]
    seconds_with_requests = {int(at) - (at == int(at)) for at in times}
    # All but the last second, which may have been cut short.
    assert len(whole) >= len(seconds_with_requests) - 1


def test_a_constant_rate_fills_its_duration() -> None:
    times = constant_rate(10, 70, random.Random(1))
    assert times[-1] == 70.0
    gaps = [later - sooner for sooner, later in pairwise([0.0, *times])]
    assert fmean(gaps) == pytest.approx(0.1)
    # Exponential gaps: as wide as they are long.
    assert variance(gaps) == pytest.approx(0.01, rel=0.25)


def test_a_poisson_process_ends_with_its_duration() -> None:
    counts = [len(poisson_process(8, 50, random.Random(seed))) for seed in range(60)]
    assert fmean(counts) == pytest.approx(400, rel=0.02)
    assert len(set(counts)) > 20
    times = poisson_process(8, 50, random.Random(0))
    assert times == sorted(times)
    assert times[0] > 0
    assert times[-1] < 50


def test_no_requests() -> None:
    assert poisson_by_second(0.5, 1, random.Random(1)) == []
    assert constant_rate(0.5, 1, random.Random(1)) == []
