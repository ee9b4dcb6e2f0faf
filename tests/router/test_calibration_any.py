"""Whatever is observed, in whatever order: rates stay usable, and nothing is kept of workers that are gone."""

import math
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from warmroute.calibration import Calibration
from warmroute.worker import Rates, WorkerKey

_WORKERS = 4

# Clocks stand still, pods hang for hours, prompts have one token or millions: none of it is refused.
_SECONDS = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 1e5]), st.floats(0.0, 1e5, allow_nan=False), st.floats(0.01, 1.0)
)
_TOKENS = st.one_of(st.sampled_from([1, 2, 2**31]), st.integers(1, 2**31), st.integers(1, 20_000))
_WORKER = st.integers(0, _WORKERS - 1)


@dataclass(frozen=True)
class Prefill:
    worker: int
    tokens: int
    seconds: float
    attended: int = 0

    def tell(self, calibration: Calibration) -> None:
        calibration.observe_prefill(WorkerKey(self.worker), self.tokens, self.attended, self.seconds)


@dataclass(frozen=True)
class Decode:
    worker: int
    decoding: float
    prefilled: int
    output: int
    seconds: float

    def tell(self, calibration: Calibration) -> None:
        key = WorkerKey(self.worker)
        calibration.observe_decode(key, self.decoding, self.prefilled, 9 * self.prefilled, self.output, self.seconds)


@dataclass(frozen=True)
class Output:
    tokens: int

    def tell(self, calibration: Calibration) -> None:
        calibration.observe_output(self.tokens)


@dataclass(frozen=True)
class Gone:
    worker: int

    def tell(self, calibration: Calibration) -> None:
        calibration.forget(WorkerKey(self.worker))


Event = Prefill | Decode | Output | Gone

_PREFILLS = st.builds(Prefill, _WORKER, _TOKENS, _SECONDS, st.integers(0, 2**50))
_DECODES = st.builds(
    Decode,
    _WORKER,
    st.floats(0.0, 1e4),
    st.integers(0, 10**7),
    st.integers(2, 10**6),
    _SECONDS.filter(lambda seconds: seconds > 0.0),
)
_EVENTS = st.one_of(
    _PREFILLS, _PREFILLS, _DECODES, _DECODES, st.builds(Output, st.integers(1, 10**6)), st.builds(Gone, _WORKER)
)


def _told(events: list[Event]) -> Calibration:
    calibration = Calibration()
    for event in events:
        event.tell(calibration)
        _check_all(calibration)
    return calibration


def _check_all(calibration: Calibration) -> None:
    for worker in range(_WORKERS + 1):  # one of them never tells anything
        _check(calibration.rates(WorkerKey(worker)))
    assert 0.0 < calibration.output_tokens(None) <= 10**6


def _check(rates: Rates) -> None:
    assert 100.0 <= rates.prefill_tokens_per_s <= 1e8
    assert 1e-7 <= rates.decode_slope_s <= 0.1
    assert rates.decode_base_s >= 0.0
    assert math.isfinite(rates.decode_base_s)
    assert all(rate > 0.0 for rate in rates.load_tokens_per_s.values())


# More samples than a calibration waits for before it looks at all workers anew.
@settings(max_examples=200, deadline=None)
@given(st.lists(_EVENTS, max_size=80))
def test_rates_can_always_be_divided_by(events: list[Event]) -> None:
    _told(events)


@settings(max_examples=100, deadline=None)
@given(st.lists(_EVENTS, min_size=1, max_size=4), st.integers(20, 100))
@example([Prefill(0, 1, 0.0), Prefill(0, 2**31, 0.0)], 60)
@example([Prefill(0, 1, 5e-324), Prefill(0, 2**31, 1e5), Prefill(1, 5, 0.0)], 60)
def test_rates_can_be_divided_by_after_many_rounds_of_the_same(events: list[Event], rounds: int) -> None:
    _told(events * rounds)


@settings(max_examples=100, deadline=None)
@given(st.lists(_EVENTS, max_size=60), _WORKER)
def test_a_worker_that_is_gone_is_as_one_that_never_came(events: list[Event], worker: int) -> None:
    calibration = _told(events)
    calibration.forget(WorkerKey(worker))
    assert calibration.rates(WorkerKey(worker)) == calibration.rates(WorkerKey(_WORKERS))


@settings(max_examples=100, deadline=None)
@given(st.lists(_EVENTS, max_size=60))
def test_equal_observations_give_equal_rates(events: list[Event]) -> None:
    one, other = _told(events), Calibration()
    for event in events:  # not looked at in between
        event.tell(other)
    for worker in range(_WORKERS + 1):
        assert one.rates(WorkerKey(worker)) == other.rates(WorkerKey(worker))


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.floats(2_000.0, 100_000.0))
def test_the_order_of_samples_hardly_matters(rng: object, rate: float) -> None:
    """Samples of one straight line, shuffled: the rate is found within a tenth, whichever came first."""
    samples = [(100 + 97 * number, 0.1 + (100 + 97 * number) / rate) for number in range(100)]
    rng.shuffle(samples)  # type: ignore[attr-defined]
    calibration = Calibration()
    for tokens, seconds in samples:
        calibration.observe_prefill(WorkerKey(0), tokens, 0, seconds)
    assert 0.9 * rate < calibration.rates(WorkerKey(0)).prefill_tokens_per_s < 1.1 * rate
