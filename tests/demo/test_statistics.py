"""The figures of a run, against the standard library and worlds counted by hand."""

import io
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from warmroute.demo.load import Answer
from warmroute.demo.statistics import RunReport, percentile, summarise, ttft_ratio
from warmroute.demo.table import meaning, result_table


def answered(sent_at: float, ttft_s: float, worker: str, prompt: int = 100, cached: int = 0) -> Answer:
    return Answer(sent_at, sent_at + ttft_s + 1.0, sent_at + ttft_s, "text", prompt, cached, worker)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=60))
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    for percent in (1, 50, 90, 99):
        assert percentile(sorted(values), percent / 100) == pytest.approx(cuts[percent - 1], rel=1e-9, abs=1e-9)


def test_percentile_of_one_value_is_that_value_and_of_none_is_none() -> None:
    assert percentile([3.0], 0.9) == 3.0
    assert percentile([], 0.9) is None


def test_a_run_is_summarised() -> None:
    answers = [
        answered(0.0, 0.1, "a", 100, 0),
        answered(1.0, 0.2, "a", 100, 80),
        answered(2.0, 0.3, "a", 100, 80),
        answered(6.7, 0.3, "b", 100, 40),
        Answer(7.0, 7.5, problem="status 503"),
    ]
    report = summarise("warmroute", answers, workers=4)
    assert (report.requests, report.failed) == (5, 1)
    assert report.ttft_p50_s == pytest.approx(0.25)
    assert report.cached_token_share == 0.5
    assert report.requests_per_s == pytest.approx(4 / 8.0)
    assert report.load_max_over_mean == 3.0  # three requests on the busiest, one on the mean of four workers


def test_an_answer_without_a_token_counts_as_failed() -> None:
    assert summarise("random", [Answer(0.0, 1.0, worker="a")], workers=2).failed == 1


def test_a_run_without_answers_has_no_ttft() -> None:
    report = summarise("random", [Answer(0.0, 1.0, problem="refused")], workers=2)
    assert report.ttft_p90_s is None
    assert (report.cached_token_share, report.requests_per_s, report.load_max_over_mean) == (0.0, 0.0, 0.0)


def report_of(policy: str, p90: float | None, cached: float = 0.5) -> RunReport:
    return RunReport(policy, 10, 0, p90, p90, p90, cached, 1.0, 1.0)


def test_the_ratio_needs_both_policies() -> None:
    assert ttft_ratio([report_of("random", 2.0), report_of("warmroute", 0.1)], "random", "warmroute") == 20.0
    assert ttft_ratio([report_of("random", 2.0)], "random", "warmroute") is None
    assert ttft_ratio([report_of("random", None), report_of("warmroute", 0.1)], "random", "warmroute") is None


def test_the_sentence_does_not_claim_what_was_not_measured() -> None:
    assert "20 times shorter" in meaning([report_of("random", 2.0), report_of("warmroute", 0.1)])
    assert "2.0 times longer" in meaning([report_of("random", 1.0), report_of("warmroute", 2.0)])
    assert "both random and warmroute" in meaning([report_of("warmroute", 0.1)])


def test_the_table_fits_80_columns() -> None:
    reports = [report_of("longest-prefix", 12.3456, 1.0), report_of("warmroute", None)]
    output = io.StringIO()
    Console(file=output, width=80).print(result_table(reports))
    assert "12,346" in output.getvalue()
    assert "longest-prefix" in output.getvalue()
    assert "…" not in output.getvalue()
    assert "engines at 4 x speed" in output.getvalue()
