"""What is learned from outcomes: how fast each worker prefills and decodes, and how long answers are.

Both rates are slopes of a straight line, fitted by least squares in which old samples fade:

    time to first byte = overhead + prompt tokens to compute (ours and those queued before) / prefill rate
    time per token     = base     + slope x requests running beside

A slope is independent of the constant overhead, which differs from fleet to fleet. A worker that has not shown enough
is taken to be as fast as the middle one of those that have, of two the faster: were it judged by the line of the whole
fleet, on which one bad moment of one worker weighs, it might never get the requests that prove it better. Until there
is one that has, the fleet's line counts, and before that the rates given at the start.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from warmroute.block import Tier
from warmroute.worker import Rates, WorkerKey

_Slopes = tuple[float | None, float | None]

_FADING = 0.98  # per sample: half of the weight lies on the last 34
_ENOUGH_SAMPLES = 12.0
_MIN_SPREAD = 0.1  # standard deviation of x over its mean below which a slope means nothing
_MIN_RATE, _MAX_RATE = 100.0, 1e8  # tokens per second
_MIN_SLOPE_S, _MAX_SLOPE_S = 1e-7, 0.1
# Going over a thousand workers takes 100 us.
_SAMPLES_PER_LOOK = 16
# Assumption, for 256 KiB of cache per token: 25 GB/s over PCIe, 5 GB/s from an NVMe disk, 10 GB/s over a network.
_LOAD_TOKENS_PER_S = {Tier.HOST: 95_000.0, Tier.DISK: 19_000.0, Tier.REMOTE: 38_000.0}


@dataclass(frozen=True, slots=True)
class CalibrationStart:
    """What is assumed before anything was observed: a Qwen3-32B worker on two H100s (2026 reference benchmark)."""

    prefill_tokens_per_s: float = 18_000.0
    decode_slope_s: float = 0.000_28
    output_tokens: float = 256.0


@dataclass(slots=True)
class LineFit:
    """Weighted least squares of y = intercept + slope x, forgetting as samples come."""

    weight: float = 0.0
    sum_x: float = 0.0
    sum_y: float = 0.0
    sum_xx: float = 0.0
    sum_xy: float = 0.0

    def add(self, x: float, y: float) -> None:
        """Take one sample; the earlier ones fade."""
        self.weight = self.weight * _FADING + 1.0
        self.sum_x = self.sum_x * _FADING + x
        self.sum_y = self.sum_y * _FADING + y
        self.sum_xx = self.sum_xx * _FADING + x * x
        self.sum_xy = self.sum_xy * _FADING + x * y

    def slope(self) -> float | None:
        """The slope, or None while samples are too few, too much alike, or fall."""
        if self.weight < _ENOUGH_SAMPLES:
            return None
        mean_x, mean_y = self.sum_x / self.weight, self.sum_y / self.weight
        variance = self.sum_xx / self.weight - mean_x * mean_x
        if variance <= (_MIN_SPREAD * mean_x) ** 2:
            return None
        slope = (self.sum_xy / self.weight - mean_x * mean_y) / variance
        return slope if slope > 0.0 else None


@dataclass(slots=True)
class _Speed:
    """Two lines and their slopes as of the last sample: they are asked for each worker and each request."""

    prefill: LineFit = field(default_factory=LineFit)
    decode: LineFit = field(default_factory=LineFit)
    prefill_slope: float | None = None
    decode_slope: float | None = None

    def add_prefill(self, tokens: float, seconds: float) -> None:
        self.prefill.add(tokens, seconds)
        self.prefill_slope = self.prefill.slope()

    def add_decode(self, running: float, seconds_per_token: float) -> None:
        self.decode.add(running, seconds_per_token)
        self.decode_slope = self.decode.slope()


_UNOBSERVED = _Speed()


class Calibration:
    """Rates of each worker, learned while running."""

    def __init__(self, start: CalibrationStart | None = None) -> None:
        self._start = start or CalibrationStart()
        self._fleet = _Speed()
        self._workers: dict[WorkerKey, _Speed] = {}
        self._rates: dict[WorkerKey, tuple[_Slopes, Rates]] = {}
        self._output_tokens = self._start.output_tokens
        self._samples = 0
        self._usual: _Slopes = (None, None)
        self._usual_until = 0

    def rates(self, worker: WorkerKey) -> Rates:
        """The worker's rates as far as they are known."""
        own, usual = self._workers.get(worker, _UNOBSERVED), self._usual_slopes()
        slopes = (own.prefill_slope or usual[0], own.decode_slope or usual[1])
        known = self._rates.get(worker)
        if known is None or known[0] != slopes:
            known = self._rates[worker] = (slopes, self._as_rates(*slopes))
        return known[1]

    def _usual_slopes(self) -> _Slopes:
        """Those of a worker that has shown nothing yet; looked for anew after every few samples."""
        if self._samples >= self._usual_until:
            self._usual_until = self._samples + _SAMPLES_PER_LOOK
            prefill = _middle(speed.prefill_slope for speed in self._workers.values())
            decode = _middle(speed.decode_slope for speed in self._workers.values())
            self._usual = (prefill or self._fleet.prefill_slope, decode or self._fleet.decode_slope)
        return self._usual

    def _as_rates(self, seconds_per_token: float | None, decode_slope_s: float | None) -> Rates:
        prefill = 1.0 / seconds_per_token if seconds_per_token else self._start.prefill_tokens_per_s
        slope = decode_slope_s or self._start.decode_slope_s
        return Rates(
            min(max(prefill, _MIN_RATE), _MAX_RATE),
            min(max(slope, _MIN_SLOPE_S), _MAX_SLOPE_S),
            _LOAD_TOKENS_PER_S,
        )

    def output_tokens(self, max_tokens: int | None) -> float:
        """How many tokens an answer is expected to have, given the client's limit."""
        return self._output_tokens if max_tokens is None else min(float(max_tokens), self._output_tokens)

    def observe_prefill(self, worker: WorkerKey, tokens_ahead: int, seconds: float) -> None:
        """One first byte: `tokens_ahead` were to be computed before it, ours included."""
        self._samples += 1
        for speed in (self._speed(worker), self._fleet):
            speed.add_prefill(float(tokens_ahead), seconds)

    def observe_decode(self, worker: WorkerKey, running: int, output_tokens: int, seconds: float) -> None:
        """One answer of two tokens or more: `seconds` from its first to its last byte."""
        self._samples += 1
        for speed in (self._speed(worker), self._fleet):
            speed.add_decode(float(running), seconds / (output_tokens - 1))

    def observe_output(self, output_tokens: int) -> None:
        """The length of one whole answer."""
        self._output_tokens += 0.05 * (output_tokens - self._output_tokens)

    def forget(self, worker: WorkerKey) -> None:
        """Drop what was learned of a worker that is gone."""
        self._workers.pop(worker, None)
        self._rates.pop(worker, None)
        self._usual_until = self._samples

    def _speed(self, worker: WorkerKey) -> _Speed:
        return self._workers.setdefault(worker, _Speed())


def _middle(slopes: Iterable[float | None]) -> float | None:
    known = sorted(slope for slope in slopes if slope is not None)
    return known[(len(known) - 1) // 2] if known else None
