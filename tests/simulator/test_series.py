"""Lines for plots from ledgers made by hand."""

import pytest

from warmroute.simulator.ledger import Ledger
from warmroute.simulator.series import MOST_POINTS, SHARES, series


def ledger_of(ttfts: list[float], *, stage_of: list[int] | None = None, gap_s: float = 1.0) -> Ledger:
    """One request every `gap_s`, each answered a second after its first token, half of its 100 tokens cached."""
    ledger = Ledger(stage_names=["a", "b"] if stage_of else ["a"])
    for position, ttft in enumerate(ttfts):
        now = position * gap_s
        row = ledger.requests.begin(stage_of[position] if stage_of else 0, now, 100)
        ledger.requests.first_at[row] = now + ttft
        ledger.requests.ended_at[row] = now + ttft + 1.0
        ledger.requests.output_tokens[row] = 10
        ledger.requests.cached[row] = 50
    return ledger


def test_distribution_is_of_the_counted_stages_alone() -> None:
    ledger = ledger_of([9.0, 9.0, 1.0, 2.0, 3.0], stage_of=[0, 0, 1, 1, 1])
    told = dict(zip(SHARES, series(ledger, [1]).ttft_s, strict=True))
    assert told[0.5] == 2.0
    assert told[1.0] == 3.0
    assert told[0.75] == pytest.approx(2.5)


def test_requests_without_a_first_token_are_no_times() -> None:
    ledger = ledger_of([1.0, 2.0])
    ledger.requests.first_at[1] = -1.0
    ledger.requests.failed[1] = "worker-died"
    lines = series(ledger, [0])
    assert set(lines.ttft_s) == {1.0}
    assert lines.over_time.cached_token_share == (0.5,)


def test_points_over_time_are_groups_of_a_stage_by_arrival() -> None:
    ledger = ledger_of([1.0] * 30 + [5.0] * 10, stage_of=[0] * 30 + [1] * 10)
    over_time = series(ledger, [0, 1]).over_time
    assert over_time.at_s == (12.0, 27.0, 34.5)  # requests 0 to 24, 25 to 29, and those of the second stage
    assert over_time.ttft_p50_s == (1.0, 1.0, 5.0)


def test_lines_stay_short_however_long_the_run() -> None:
    ledger = ledger_of([1.0] * 20_000, gap_s=0.1)
    ledger.gauges.add_worker()
    for second in range(2_000):
        ledger.gauges.at.append(float(second))
        ledger.gauges.stage.append(0)
        ledger.gauges.held.append(second % 2)
        ledger.gauges.sample(0, 3, 1, 0.5)
    lines = series(ledger, [0])
    assert len(lines.over_time.at_s) <= MOST_POINTS
    assert len(lines.load.at_s) == len(lines.load.held) == len(lines.load.workers[0]) <= MOST_POINTS
    assert set(lines.load.workers[0]) == {4.0}
    assert lines.load.held[0] == pytest.approx(4 / 9)  # 2,000 samples are means of 9


def test_a_worker_that_joins_later_has_no_points_before() -> None:
    ledger = ledger_of([1.0])
    ledger.gauges.add_worker()
    for second in range(4):
        if second == 2:
            ledger.gauges.add_worker()
        ledger.gauges.at.append(float(second))
        ledger.gauges.stage.append(0)
        ledger.gauges.held.append(0)
        for worker in range(len(ledger.gauges.running)):
            ledger.gauges.sample(worker, worker + 1, 10 * worker, 0.0)
    load = series(ledger, [0]).load
    assert load.workers == ((1.0, 1.0, 1.0, 1.0), (None, None, 12.0, 12.0))
    assert load.waiting == (0.0, 0.0, 10.0, 10.0)


def test_stages_span_from_first_arrival_to_last_end() -> None:
    spans = series(ledger_of([1.0, 2.0, 1.0], stage_of=[0, 0, 1]), [0]).stages
    assert [(span.name, span.start_s, span.end_s) for span in spans] == [("a", 0.0, 4.0), ("b", 2.0, 4.0)]


def test_nothing_gives_empty_lines() -> None:
    lines = series(Ledger(stage_names=["a"]), [0])
    assert lines.over_time.at_s == ()
    assert lines.load.at_s == ()
    assert set(lines.ttft_s) == {None}
