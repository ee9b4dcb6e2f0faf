"""Rates are learned from what was seen, and only from enough of it."""

import random

import pytest

from warmroute.calibration import Calibration, CalibrationStart, LineFit
from warmroute.worker import WorkerKey

_A, _B = WorkerKey(1), WorkerKey(2)


def test_a_line_is_found_again_under_noise() -> None:
    rng = random.Random(3)
    fit = LineFit()
    for _ in range(300):
        x = rng.uniform(0, 10_000)
        fit.add(x, 0.15 + x / 18_000 + rng.gauss(0, 0.02))
    slope = fit.slope()
    assert slope is not None
    assert 1 / slope == pytest.approx(18_000, rel=0.1)


def test_samples_that_are_all_alike_tell_no_slope() -> None:
    fit = LineFit()
    for _ in range(100):
        fit.add(5000.0, 0.4)
    assert fit.slope() is None


def test_before_enough_was_seen_the_start_values_hold() -> None:
    calibration = Calibration(CalibrationStart(prefill_tokens_per_s=123.0, decode_slope_s=0.01))
    calibration.observe_prefill(_A, 1000, 0.1)
    assert calibration.rates(_A).prefill_tokens_per_s == 123.0
    assert calibration.rates(_A).decode_slope_s == 0.01


def test_each_worker_gets_its_own_rate_and_a_new_one_that_of_the_middle_one() -> None:
    calibration = Calibration()
    rng = random.Random(5)
    for _ in range(100):
        tokens = rng.randrange(100, 10_000)
        calibration.observe_prefill(_A, tokens, 0.1 + tokens / 10_000)
        calibration.observe_prefill(_B, tokens, 0.1 + tokens / 50_000)
    assert calibration.rates(_A).prefill_tokens_per_s == pytest.approx(10_000, rel=0.05)
    assert calibration.rates(_B).prefill_tokens_per_s == pytest.approx(50_000, rel=0.05)
    newcomer = WorkerKey(9)
    assert calibration.rates(newcomer).prefill_tokens_per_s == pytest.approx(50_000, rel=0.05), "of two the faster"


def test_one_bad_moment_of_another_does_not_make_a_worker_slow_that_has_shown_nothing() -> None:
    calibration = Calibration()
    rng = random.Random(5)
    for _ in range(100):
        tokens = rng.randrange(100, 10_000)
        calibration.observe_prefill(_A, tokens, tokens / 40_000)
    for seconds in (20.0, 30.0, 10.0):
        calibration.observe_prefill(_B, 9_000, seconds)
    assert calibration.rates(_B).prefill_tokens_per_s == pytest.approx(40_000, rel=0.05)


def test_a_worker_that_changed_its_speed_is_believed() -> None:
    calibration = Calibration()
    rng = random.Random(5)
    for rate in (10_000, 40_000):
        for _ in range(300):
            tokens = rng.randrange(100, 10_000)
            calibration.observe_prefill(_A, tokens, tokens / rate)
    assert calibration.rates(_A).prefill_tokens_per_s == pytest.approx(40_000, rel=0.05)


def test_decode_slope_and_answer_length() -> None:
    calibration = Calibration()
    for running in range(40):
        calibration.observe_decode(_A, running, 101, 100 * (0.0135 + 0.0003 * running))
        calibration.observe_output(40)
    assert calibration.rates(_A).decode_slope_s == pytest.approx(0.0003, rel=0.01)
    assert calibration.output_tokens(None) == pytest.approx(40, rel=1.0)
    assert calibration.output_tokens(8) == 8
