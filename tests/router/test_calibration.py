"""Rates are learned from what was seen, and only from enough of it."""

import random

import pytest

from warmroute.calibration import Calibration, CalibrationStart, Middle, SlopeFit
from warmroute.worker import WorkerKey

_A, _B = WorkerKey(1), WorkerKey(2)


_BELIEF = 1 / 18_000


class Line:
    """A fit of points of one kind."""

    def __init__(self) -> None:
        self.fit, self.middle = SlopeFit(), Middle()

    def add(self, x: float, y: float) -> None:
        self.fit.add(x, y, self.middle, _BELIEF)

    @property
    def slope(self) -> float:
        return self.fit.slope(_BELIEF, self.middle.y)

    @property
    def is_proved(self) -> bool:
        return self.fit.is_proved(_BELIEF, self.middle.y)


def test_a_line_is_found_again_under_noise() -> None:
    rng, line = random.Random(3), Line()
    for _ in range(300):
        x = rng.uniform(0, 10_000)
        line.add(x, 0.15 + x / 6_000 + rng.gauss(0, 0.02))
    assert 1 / line.slope == pytest.approx(6_000, rel=0.05)
    assert line.is_proved


def test_samples_that_are_all_alike_leave_the_belief() -> None:
    line = Line()
    for _ in range(100):
        line.add(5000.0, 0.4)
    assert line.slope == _BELIEF
    assert not line.is_proved


def test_a_line_that_falls_leaves_the_belief() -> None:
    line = Line()
    for x in range(100):
        line.add(float(x), 1.0 - x / 200)
    assert line.slope == _BELIEF


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_not_taken_for_a_slope(seed: int) -> None:
    """Warm prompts: next to nothing to compute, and a first byte that hangs on the step that is under way."""
    rng, line = random.Random(seed), Line()
    for number in range(500):
        x = rng.uniform(60, 160)
        line.add(x, 0.2 + x / 18_000 + rng.uniform(0, 0.06))
        if number > 13:
            assert 0.3 * _BELIEF < line.slope < 2.0 * _BELIEF


def test_what_was_told_is_not_forgotten_over_samples_that_tell_nothing() -> None:
    rng, line = random.Random(1), Line()
    for _ in range(100):
        x = rng.uniform(0, 10_000)
        line.add(x, 0.2 + x / 6_000 + rng.uniform(0, 0.06))
    for _ in range(2_000):
        line.add(100.0 + rng.random(), 0.2 + 100 / 6_000 + rng.uniform(0, 0.06))
    assert 1 / line.slope == pytest.approx(6_000, rel=0.1)


def test_waits_for_something_else_do_not_change_the_slope() -> None:
    rng, line = random.Random(2), Line()
    for number in range(400):
        x = rng.uniform(0, 10_000)
        wait_s = 60.0 if number > 50 and rng.random() < 0.03 else 0.0
        line.add(x, 0.2 + x / 18_000 + rng.uniform(0, 0.06) + wait_s)
        if number > 50:
            assert 1 / line.slope == pytest.approx(18_000, rel=0.35)


def test_before_anything_was_seen_the_start_values_hold() -> None:
    calibration = Calibration(CalibrationStart(prefill_tokens_per_s=123.0, decode_slope_s=0.01, decode_base_s=0.1))
    calibration.observe_prefill(_A, 1000, 0, 0.1)
    rates = calibration.rates(_A)
    assert rates.prefill_tokens_per_s == pytest.approx(123.0)
    assert (rates.decode_slope_s, rates.decode_base_s) == (0.01, 0.1)


def test_each_worker_gets_its_own_rate_and_a_new_one_that_of_the_middle_one() -> None:
    calibration = Calibration()
    rng = random.Random(5)
    for _ in range(100):
        tokens = rng.randrange(100, 10_000)
        calibration.observe_prefill(_A, tokens, 0, 0.1 + tokens / 10_000)
        calibration.observe_prefill(_B, tokens, 0, 0.1 + tokens / 50_000)
    assert calibration.rates(_A).prefill_tokens_per_s == pytest.approx(10_000, rel=0.05)
    assert calibration.rates(_B).prefill_tokens_per_s == pytest.approx(50_000, rel=0.05)
    newcomer = WorkerKey(9)
    assert calibration.rates(newcomer).prefill_tokens_per_s == pytest.approx(50_000, rel=0.05), "of two the faster"


def test_one_bad_moment_of_another_does_not_make_a_worker_slow_that_has_shown_nothing() -> None:
    calibration = Calibration()
    rng = random.Random(5)
    for _ in range(100):
        tokens = rng.randrange(100, 10_000)
        calibration.observe_prefill(_A, tokens, 0, tokens / 40_000)
    for seconds in (20.0, 30.0, 10.0):
        calibration.observe_prefill(_B, 9_000, 0, seconds)
    assert calibration.rates(_B).prefill_tokens_per_s > 15_000, "not 90 times as slow"
    assert calibration.rates(_A).prefill_tokens_per_s == pytest.approx(40_000, rel=0.05)


def test_a_worker_that_changed_its_speed_is_believed() -> None:
    calibration = Calibration()
    rng = random.Random(5)
    for rate in (10_000, 40_000, 8_000):
        for _ in range(300):
            tokens = rng.randrange(100, 10_000)
            calibration.observe_prefill(_A, tokens, 0, tokens / rate)
        assert calibration.rates(_A).prefill_tokens_per_s == pytest.approx(rate, rel=0.05)


def test_decode_slope_and_answer_length() -> None:
    """What others' prefill took is not put down to those who decoded."""
    calibration, rng = Calibration(), random.Random(4)
    for _ in range(200):
        tokens = rng.randrange(100, 10_000)
        calibration.observe_prefill(_A, tokens, 0, 0.1 + tokens / 20_000)
    for _ in range(10):
        for decoding in range(1, 41):
            prefilled = 2_000 * decoding
            seconds = 100 * (0.0135 + 0.0003 * decoding) + prefilled / 20_000
            calibration.observe_decode(_A, decoding, prefilled, 0, 101, seconds)
            calibration.observe_output(40)
    assert calibration.rates(_A).decode_slope_s == pytest.approx(0.0003, rel=0.05)
    assert calibration.rates(_A).decode_base_s == pytest.approx(0.0135, rel=0.1)
    assert calibration.output_tokens(None) == pytest.approx(40, rel=1.0)
    assert calibration.output_tokens(8) == 8


def test_workers_decode_on_one_line_each_at_its_own_pace() -> None:
    calibration, slow = Calibration(), WorkerKey(3)
    rng = random.Random(7)
    for _ in range(400):
        for worker, pace in ((_A, 1.0), (_B, 1.0), (slow, 3.0)):
            decoding = rng.uniform(1, 100)
            noise = rng.uniform(0.95, 1.05)
            calibration.observe_decode(worker, decoding, 0, 0, 101, 100 * pace * noise * (0.0135 + 0.0003 * decoding))
    usual = calibration.rates(_A)
    assert usual.decode_slope_s == pytest.approx(0.0003, rel=0.1)
    assert usual.decode_base_s == pytest.approx(0.0135, rel=0.1)
    assert calibration.rates(slow).decode_slope_s == pytest.approx(3 * usual.decode_slope_s, rel=0.1)
    assert calibration.rates(_B) == usual


def test_load_that_is_shared_out_by_cost_does_not_make_equal_workers_differ() -> None:
    """One of two equal workers has had twice the load of the other by chance; neither looks quicker by that."""
    calibration, rng = Calibration(), random.Random(9)
    for _ in range(400):
        for worker, usual in ((_A, 20.0), (_B, 40.0)):
            decoding = usual + rng.uniform(-5, 5)
            calibration.observe_decode(worker, decoding, 0, 0, 101, 100 * (0.0135 + 0.0003 * decoding))
    assert calibration.rates(_A) == calibration.rates(_B)
    assert calibration.rates(_A).decode_slope_s == pytest.approx(0.0003, rel=0.05)


def test_long_prompts_tell_after_how_many_tokens_one_more_takes_twice_as_long() -> None:
    calibration, rng = Calibration(), random.Random(6)
    assert calibration.rates(_A).context_tokens == 40_000
    for _ in range(300):
        tokens, before = rng.randrange(100, 30_000), rng.randrange(60_000)
        attended = tokens * before + tokens * tokens // 2
        seconds = 0.15 + (tokens + attended / 80_000) / 20_000 + rng.uniform(0, 0.06)
        calibration.observe_prefill(_A, tokens, attended, seconds)
    rates = calibration.rates(_A)
    assert rates.context_tokens == 80_000
    assert rates.prefill_tokens_per_s == pytest.approx(20_000, rel=0.1)
    assert rates.prefill_s(10_000, 10_000 * 40_000) == pytest.approx(15_000 / 20_000, rel=0.1)


def test_short_prompts_say_nothing_of_that() -> None:
    calibration, rng = Calibration(), random.Random(6)
    for _ in range(500):
        tokens = rng.randrange(100, 4_000)
        calibration.observe_prefill(_A, tokens, tokens * tokens // 2, 0.15 + tokens / 20_000 + rng.uniform(0, 0.06))
    assert calibration.rates(_A).context_tokens == 40_000
