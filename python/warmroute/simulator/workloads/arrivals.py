"""When requests come, in seconds from a stage's start.

The first two are the timers of the published benchmark's load generator (kubernetes-sigs/inference-perf,
`loadgen/load_timer.py`, September 2025): both draw exponential gaps and stretch them to fill a window, so the last
request of a window comes exactly at its end.
"""

import random
from collections.abc import Callable

Arrivals = Callable[[float, float, random.Random], list[float]]
"""Of a rate (requests/s) and a duration (s): the times of int(rate x duration) requests."""


def poisson_by_second(rate: float, duration_s: float, rng: random.Random) -> list[float]:
    """For every second a Poisson count of requests. As their number is kept, they may last longer or end sooner."""
    count, times, second = int(rate * duration_s), list[float](), 0
    while len(times) < count:
        times += [second + share for share in _shares(_poisson(rate, rng), rng)]
        second += 1
    return times[:count]


def constant_rate(rate: float, duration_s: float, rng: random.Random) -> list[float]:
    """The number is spread over the whole duration."""
    return [duration_s * share for share in _shares(int(rate * duration_s), rng)]


def poisson_process(rate: float, duration_s: float, rng: random.Random) -> list[float]:
    """A Poisson process, cut at `duration_s`; the number varies."""
    times, at = list[float](), rng.expovariate(rate)
    while at < duration_s:
        times.append(at)
        at += rng.expovariate(rate)
    return times


def _poisson(mean: float, rng: random.Random) -> int:
    count, at = 0, rng.expovariate(mean)
    while at < 1.0:
        count += 1
        at += rng.expovariate(mean)
    return count


def _shares(count: int, rng: random.Random) -> list[float]:
    """Rising shares of 1, the last of them 1, with exponential gaps between them."""
    gaps = [rng.expovariate(1.0) for _ in range(count)]
    total, reached, shares = sum(gaps), 0.0, list[float]()
    for gap in gaps[:-1]:
        reached += gap
        shares.append(reached / total)
    return [*shares, 1.0] if count else []
