"""What of a ledger is worth a plot: lines of some hundred points, however long the simulation was."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from warmroute.simulator.ledger import NOT_YET, Gauges, Ledger, Requests
from warmroute.simulator.summary import percentile

MOST_POINTS = 240
SHARES = tuple(number / 200 for number in range(1, 201))

# Of fewer the 90th percentile says more of one request than of the moment.
_REQUESTS_A_POINT = 25

Line = tuple[float | None, ...]
"""Values of a line; None where there was nothing to measure."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """Of the requests that arrived around `at_s`: seconds to the first token, the share of prompt tokens not computed.

    `at_s`: seconds since the beginning, the mean of their arrivals.
    """

    at_s: Line
    ttft_p50_s: Line
    ttft_p90_s: Line
    cached_token_share: Line


@dataclass(frozen=True, slots=True)
class Load:
    """Requests around `at_s`: `held` by the router, `waiting` in all engines, and each worker's running and waiting."""

    at_s: Line
    held: Line
    waiting: Line
    workers: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class StageSpan:
    """From the first request of a stage to the end of its last."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Series:
    """The lines of one run. ttft_s: the times to the first token at `SHARES` of the counted requests."""

    ttft_s: Line
    over_time: OverTime
    load: Load
    stages: tuple[StageSpan, ...]


def series(ledger: Ledger, counted: Sequence[int]) -> Series:
    """The lines of a ledger; `counted`: the stages whose requests are in the distribution."""
    rows = [row for row, stage in enumerate(ledger.requests.stage) if stage in counted]
    ttfts = sorted(_ttfts(ledger.requests, rows))
    return Series(
        ttft_s=tuple(percentile(ttfts, share) for share in SHARES),
        over_time=_over_time(ledger.requests),
        load=_load(ledger.gauges),
        stages=tuple(_span(ledger, number) for number in range(len(ledger.stage_names))),
    )


def _ttfts(requests: Requests, rows: Iterable[int]) -> list[float]:
    return [requests.first_at[row] - requests.arrived_at[row] for row in rows if requests.first_at[row] != NOT_YET]


def _over_time(requests: Requests) -> OverTime:
    """Points of equally many requests of a stage, by arrival: where few came there are few points."""
    groups = list(_groups(requests))
    times = [sorted(_ttfts(requests, rows)) for rows in groups]
    return OverTime(
        at_s=tuple(fmean(requests.arrived_at[rows.start : rows.stop]) for rows in groups),
        ttft_p50_s=tuple(percentile(each, 0.5) for each in times),
        ttft_p90_s=tuple(percentile(each, 0.9) for each in times),
        cached_token_share=tuple(_cached_share(requests, rows) for rows in groups),
    )


def _groups(requests: Requests) -> Iterator[range]:
    """Rows of neighbours. They are in the order of arrival, so a stage's are together."""
    size = max(_REQUESTS_A_POINT, ceil(len(requests) / MOST_POINTS))
    start = 0
    while start < len(requests):
        end = start + 1
        while end < min(start + size, len(requests)) and requests.stage[end] == requests.stage[start]:
            end += 1
        yield range(start, end)
        start = end


def _cached_share(requests: Requests, rows: Iterable[int]) -> float | None:
    whole = [row for row in rows if not requests.failed[row]]
    prompts = sum(requests.prompt_tokens[row] for row in whole)
    return sum(requests.cached[row] for row in whole) / prompts if prompts else None


def _load(gauges: Gauges) -> Load:
    workers = [
        [had + waits for had, waits in zip(running, waiting, strict=True)]
        for running, waiting in zip(gauges.running, gauges.waiting, strict=True)
    ]
    taken = len(gauges.at)
    # A worker that joins later has only the last samples.
    all_waiting = [sum(each[at - taken] for each in gauges.waiting if at - taken >= -len(each)) for at in range(taken)]
    return Load(
        at_s=_thinned(gauges.at, taken),
        held=_thinned(gauges.held, taken),
        waiting=_thinned(all_waiting, taken),
        workers=tuple(_thinned(each, taken) for each in workers),
    )


def _thinned(values: Sequence[float], taken: int) -> Line:
    """Means of so many neighbours that the line of `taken` samples has few enough points.

    Where there are fewer values they are the last ones; a point for which there is none is None.
    """
    neighbours = max(1, ceil(taken / MOST_POINTS))
    lacking = taken - len(values)
    means: list[float | None] = []
    for start in range(0, taken, neighbours):
        there = values[max(0, start - lacking) : max(0, start + neighbours - lacking)]
        means.append(fmean(there) if there else None)
    return tuple(means)


def _span(ledger: Ledger, number: int) -> StageSpan:
    requests = ledger.requests
    rows = [row for row, stage in enumerate(requests.stage) if stage == number]
    if not rows:
        return StageSpan(ledger.stage_names[number], 0.0, 0.0)
    end_s = max(requests.ended_at[row] for row in rows)
    return StageSpan(ledger.stage_names[number], requests.arrived_at[rows[0]], end_s)
