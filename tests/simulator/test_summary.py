"""Figures against ledgers that were made by hand."""

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulator.ledger import NOT_YET, Ledger
from warmroute.simulator.summary import percentile, stage_figures, whole_figures

FEW = st.lists(st.floats(0, 1e6), min_size=2, max_size=50)


@given(FEW, st.integers(1, 99))
def test_percentiles_lie_on_the_line_between_two_values(values: list[float], hundredths: int) -> None:
    expected = statistics.quantiles(values, n=100, method="inclusive")[hundredths - 1]
    assert percentile(sorted(values), hundredths / 100) == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_percentiles_of_one_and_of_none() -> None:
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([], 0.5) is None
    assert percentile([1.0, 2.0], 1.0) == 2.0


def entered(
    ledger: Ledger, stage: int, times: tuple[float, float, float], tokens: tuple[int, int], worker: int = 0, **more: int
) -> int:
    """A request that arrives, begins and ends at these times, with tokens of its prompt and its answer."""
    requests = ledger.requests
    row = requests.begin(stage, times[0], tokens[0])
    requests.first_at[row], requests.ended_at[row] = times[1:]
    requests.output_tokens[row], requests.worker[row] = tokens[1], worker
    requests.cached[row], requests.predicted[row] = more.get("cached", 0), more.get("predicted", 0)
    return row


@pytest.fixture
def ledger() -> Ledger:
    """Two stages on two workers, of which the second one joined when one sample had been taken."""
    ledger = Ledger(stage_names=["one", "two"])
    entered(ledger, 0, (10.0, 10.5, 12.5), (100, 5), cached=64, predicted=64)
    entered(ledger, 0, (11.0, 13.0, 14.0), (300, 3), worker=1, cached=0, predicted=16)
    entered(ledger, 1, (20.0, 21.0, 22.0), (50, 11), cached=48, predicted=48)
    died = entered(ledger, 1, (20.0, 24.0, 26.0), (500, 0), worker=1, cached=480)
    refused = entered(ledger, 1, (20.0, NOT_YET, 20.0), (500, 0), worker=-1)
    ledger.requests.failed[died], ledger.requests.failed[refused] = "worker-died", "no-worker-ready"
    gauges = ledger.gauges
    gauges.add_worker()
    for at, (stage, held) in enumerate([(0, 0), (0, 4), (1, 2)]):
        gauges.at.append(float(at))
        gauges.stage.append(stage)
        gauges.held.append(held)
        if at == 1:
            gauges.add_worker()
        gauges.sample(0, 1, at, 0.1 * at)
        if at >= 1:
            gauges.sample(1, 1, 10 * at, 0.5)
    return ledger


def test_a_stage(ledger: Ledger) -> None:
    one = stage_figures(ledger, 0, rate=2.5)
    assert (one.name, one.rate, one.requests, one.failed) == ("one", 2.5, 2, 0)
    assert one.output_tokens_per_s == 8 / 4.0  # from the first arrival to the last token
    assert (one.ttft_mean_s, one.ttft_p50_s) == (1.25, 1.25)
    assert one.ttft_p90_s == pytest.approx(0.5 + 0.9 * 1.5)
    assert one.tpot_mean_s == pytest.approx((2.0 / 4 + 1.0 / 2) / 2)
    assert one.latency_mean_s == pytest.approx((2.5 + 3.0) / 2)
    assert one.cached_token_share == 64 / 400
    assert one.predicted_exact_share == 0.5
    assert one.load_ratio == 1.0
    assert one.queue_mean == pytest.approx((0 + 1 + 10) / 3)  # the second worker has one sample of this stage
    assert one.held_mean == 2.0
    assert one.kv_usage_mean == pytest.approx((0.0 + 0.1 + 0.5) / 3)


def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    ledger = Ledger(stage_names=["short"])
    ledger.gauges.add_worker()
    entered(ledger, 0, (0.0, 1.0, 1.0), (10, 1))
    assert stage_figures(ledger, 0, None).tpot_mean_s is None
    entered(ledger, 0, (0.0, 1.0, 1.5), (10, 2))
    assert stage_figures(ledger, 0, None).tpot_mean_s == 0.5


def test_who_failed_counts_where_it_got_to(ledger: Ledger) -> None:
    two = stage_figures(ledger, 1, None)
    assert (two.requests, two.failed) == (3, 2)
    assert two.output_tokens_per_s == 11 / 2.0  # tokens of broken answers do not count
    assert two.ttft_mean_s == 2.5  # the broken one had begun
    assert two.latency_mean_s == 2.0
    assert two.cached_token_share == 48 / 50
    assert two.tpot_mean_s == pytest.approx(0.1)


def test_the_whole_is_the_mean_of_rates_and_a_pool_of_times(ledger: Ledger) -> None:
    stages = [stage_figures(ledger, number, None) for number in (0, 1)]
    whole = whole_figures(ledger, (0, 1), stages)
    assert (whole.name, whole.requests, whole.failed) == ("all", 5, 2)
    assert whole.output_tokens_per_s == (2.0 + 5.5) / 2
    assert whole.ttft_mean_s == pytest.approx((0.5 + 2.0 + 1.0 + 4.0) / 4)
    assert whole.ttft_p50_s == 1.5
    assert whole.cached_token_share == (64 + 48) / 450
    assert whole.load_ratio == 2 / 2.0


def test_what_was_not_counted_is_not_in_the_whole(ledger: Ledger) -> None:
    only = whole_figures(ledger, (1,), [stage_figures(ledger, 1, None)])
    assert (only.requests, only.held_mean) == (3, 2.0)
    assert only.output_tokens_per_s == 5.5


def test_nothing_gives_none() -> None:
    nothing = stage_figures(Ledger(stage_names=["empty"]), 0, None)
    assert (nothing.requests, nothing.failed) == (0, 0)
    figures = ("output_tokens_per_s", "ttft_mean_s", "ttft_p99_s", "queue_mean", "cached_token_share", "load_ratio")
    assert [getattr(nothing, name) for name in figures] == [None] * len(figures)


def test_the_order_of_requests_does_not_matter() -> None:
    rng = random.Random(3)
    rows = [((at, at + rng.random(), at + 1 + rng.random()), (rng.randint(1, 90), 2)) for at in range(30)]
    there, back = Ledger(stage_names=["a"]), Ledger(stage_names=["a"])
    for row in rows:
        entered(there, 0, *row)
    for row in reversed(rows):
        entered(back, 0, *row)
    for ledger in (there, back):
        ledger.gauges.add_worker()
    assert stage_figures(there, 0, None).ttft_p90_s == stage_figures(back, 0, None).ttft_p90_s
    assert stage_figures(there, 0, None).output_tokens_per_s == stage_figures(back, 0, None).output_tokens_per_s
