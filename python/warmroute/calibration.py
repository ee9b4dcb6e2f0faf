"""What is learned from outcomes: how fast each worker prefills and decodes, and how long answers are.

Both rates are slopes of a straight line:

    time to first byte = overhead + prompt tokens to compute (ours and those queued before) / prefill rate
    time per token     = base     + slope x requests running beside

A slope is independent of the constant overhead, which differs from fleet to fleet. It is believed as far as the samples
prove it: where prompts are warm all of them have next to nothing to compute, their times differ by other things, and a
plain fit finds any slope, a negative one as soon as one ten times too steep (on the reference benchmark that alone
melted the fleet from 43 requests/s on). So each slope is the mean of what is believed before and what the samples say,
weighted by what they tell: the middle of the workers that have proved theirs, before that the rates given at the start.
A time that lies far above all others is a wait for something else, a full cache for example, and counts as a late one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from warmroute.block import Tier
from warmroute.worker import Rates, WorkerKey

_FADING = 0.98  # per sample: half of the weight lies on the last 34
_TELLING = 3.0  # a sample tells all it can where its distance from the mean squared is this part of the usual (1/3)
_FEW = 12.0  # samples, before which noise cannot be told from slope
_DOUBT = 0.5  # a belief's standard deviation, over itself
_LATE = 3.0  # deviations from the line beyond which a sample counts as no further away
_LEAST_DEVIATION = 0.05  # of the mean: where all samples lie on a line, a worker may still become slower
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
    decode_base_s: float = 0.013_5
    output_tokens: float = 256.0


@dataclass(slots=True)
class SlopeFit:
    """The slope of y over x from noisy samples that come one by one, as the posterior of a Gaussian prior.

    A sample makes earlier ones fade only as far as it tells of the slope itself: after a thousand prompts of equal
    length the few that had told it are not forgotten (directional forgetting: without it a recursive fit winds up).
    """

    weight: float = 0.0
    mean_x: float = 0.0
    mean_y: float = 0.0
    sum_xx: float = 0.0
    sum_xy: float = 0.0
    informed: float = 0.0
    noise: float = 0.0  # of y around the line: variance

    def add(self, x: float, y: float, belief: float, sources: int = 1) -> None:
        """Take one sample; `belief` is the slope where nothing proves another. Of `sources` that are seen as one, each
        is remembered for as many samples as one alone.
        """
        fading = 1.0 - (1.0 - _FADING) / sources
        if self.weight == 0.0:
            self.weight, self.mean_x, self.mean_y = 1.0, x, y
            return
        dx = x - self.mean_x
        dy = self._bounded(y - self.mean_y, dx * self.slope(belief))
        spread = self.sum_xx / self.informed if self.informed else 0.0
        told = min(1.0, _TELLING * dx * dx / spread) if spread else 1.0
        kept = 1.0 - (1.0 - fading) * told
        self.weight = self.weight * fading + 1.0
        # Welford's update: the product of the distances from the mean before and after.
        rest = 1.0 - 1.0 / self.weight
        self.informed = self.informed * kept + told
        self.sum_xx = self.sum_xx * kept + dx * dx * rest
        self.sum_xy = self.sum_xy * kept + dx * dy * rest
        self.mean_x += dx / self.weight
        self.mean_y += dy / self.weight
        residual = (dy - dx * (self.sum_xy / self.sum_xx if self.sum_xx else 0.0)) * rest
        self.noise += (residual * residual - self.noise) / self.weight

    def slope(self, belief: float) -> float:
        """What the samples say, drawn to the belief as far as noise hides it. It may be negative."""
        if self.sum_xx == 0.0:
            return belief
        pull = self._pull(belief)
        return (self.sum_xy + pull * belief) / (self.sum_xx + pull)

    def at_zero(self, slope: float) -> float:
        """Where the line of this slope through the samples' middle begins; not below 0."""
        return max(0.0, self.mean_y - slope * self.mean_x)

    def is_proved(self, belief: float) -> bool:
        """Whether the samples weigh more than the belief."""
        return self.weight >= _FEW and self.sum_xx > self._pull(belief)

    def _pull(self, belief: float) -> float:
        """The belief's weight in the units of `sum_xx`."""
        unknown = self.mean_y * self.mean_y if self.weight < _FEW else 0.0
        return (self.noise + unknown) / (_DOUBT * belief) ** 2

    def _bounded(self, dy: float, expected: float) -> float:
        if self.weight < _FEW:
            return dy
        deviation = max(math.sqrt(self.noise), _LEAST_DEVIATION * self.mean_y)
        return min(dy, expected + _LATE * deviation)


@dataclass(slots=True)
class _Factor:
    """How many times as long as usual a worker takes: the mean of its ratios, drawn to 1 while they are few."""

    weight: float = 0.0
    value: float = 1.0

    def add(self, ratio: float) -> None:
        """Take one ratio; one that is far above the others counts as late."""
        if self.weight >= _FEW:
            ratio = min(ratio, _LATE * self.value)
        self.weight = self.weight * _FADING + 1.0
        self.value += (ratio - self.value) / (self.weight + _FEW)


class Calibration:
    """Rates of each worker, learned while running.

    A worker's prefill rate is a slope of its own. Of decoding all workers have one line, which each goes through at its
    own pace: slopes of their own, found under a load that hardly varies, would differ by chance, and the one that looks
    least hurt by load gets more of it.
    """

    def __init__(self, start: CalibrationStart | None = None) -> None:
        self._start = start or CalibrationStart()
        self._prefill: dict[WorkerKey, SlopeFit] = {}
        self._all_prefill = SlopeFit()
        self._decode = SlopeFit()
        self._factors: dict[WorkerKey, _Factor] = {}
        self._usual_factor = 1.0
        self._rates: dict[WorkerKey, Rates] = {}
        self._output_tokens = self._start.output_tokens
        self._samples = 0
        self._first_prefill = self._usual_prefill = 1.0 / self._start.prefill_tokens_per_s

    def rates(self, worker: WorkerKey) -> Rates:
        """The worker's rates as far as they are known."""
        known = self._rates.get(worker)
        if known is None:
            known = self._rates[worker] = self._as_rates(worker)
        return known

    def output_tokens(self, max_tokens: int | None) -> float:
        """How many tokens an answer is expected to have, given the client's limit."""
        return self._output_tokens if max_tokens is None else min(float(max_tokens), self._output_tokens)

    def observe_prefill(self, worker: WorkerKey, tokens_ahead: int, seconds: float) -> None:
        """One first byte: `tokens_ahead` were to be computed before it, ours included."""
        fit = self._prefill.setdefault(worker, SlopeFit())
        fit.add(float(tokens_ahead), seconds, self._usual_prefill)
        self._all_prefill.add(float(tokens_ahead), seconds, self._first_prefill, len(self._prefill))
        self._sampled(worker)

    def observe_decode(self, worker: WorkerKey, decoding: float, output_tokens: int, seconds: float) -> None:
        """One answer of two tokens or more: `seconds` from its first to its last byte, in which in the mean `decoding`
        requests decoded, itself included.
        """
        per_token = seconds / (output_tokens - 1)
        factor = self._factors.setdefault(worker, _Factor())
        if self._decode.weight >= _FEW:
            base_s, slope_s = self._decode_line()
            factor.add(per_token / (base_s + slope_s * max(1.0, decoding)))
        pace = factor.value / self._usual_factor
        self._decode.add(decoding, per_token / pace, self._start.decode_slope_s, len(self._factors))
        self._sampled(worker)

    def observe_output(self, output_tokens: int) -> None:
        """The length of one whole answer."""
        self._output_tokens += 0.05 * (output_tokens - self._output_tokens)

    def forget(self, worker: WorkerKey) -> None:
        """Drop what was learned of a worker that is gone."""
        self._prefill.pop(worker, None)
        self._factors.pop(worker, None)
        self._look_around()

    def _sampled(self, worker: WorkerKey) -> None:
        self._samples += 1
        self._rates.pop(worker, None)
        if self._samples % _SAMPLES_PER_LOOK == 0:
            self._look_around()

    def _look_around(self) -> None:
        """Find anew what is usual, and with it what is believed of those that have proved nothing else."""
        self._usual_prefill = _usual(self._prefill.values(), self._all_prefill, self._first_prefill)
        self._usual_factor = median(factor.value for factor in self._factors.values()) if self._factors else 1.0
        self._rates.clear()

    def _decode_line(self) -> tuple[float, float]:
        """Seconds of a step without further requests, and those that each of them adds, at the usual pace."""
        slope_s = max(_positive(self._decode, self._start.decode_slope_s), _MIN_SLOPE_S)
        return (self._decode.at_zero(slope_s) if self._decode.weight else self._start.decode_base_s), slope_s

    def _as_rates(self, worker: WorkerKey) -> Rates:
        fit, factor = self._prefill.get(worker), self._factors.get(worker)
        seconds_per_token = self._usual_prefill if fit is None else _positive(fit, self._usual_prefill)
        base_s, slope_s = self._decode_line()
        pace = 1.0 if factor is None else factor.value / self._usual_factor
        return Rates(
            min(max(1.0 / seconds_per_token, _MIN_RATE), _MAX_RATE),
            min(max(slope_s * pace, _MIN_SLOPE_S), _MAX_SLOPE_S),
            base_s * pace,
            _LOAD_TOKENS_PER_S,
        )


def _positive(fit: SlopeFit, belief: float) -> float:
    """The fit's slope; the belief where something else than x moved y so much that y falls."""
    slope = fit.slope(belief)
    return slope if slope > 0.0 else belief


def _usual(fits: Iterable[SlopeFit], together: SlopeFit, start: float) -> float:
    """The slope of the middle one of those that have proved theirs, of two the lower; else of all samples as one."""
    proved = sorted(slope for fit in fits if fit.is_proved(start) and (slope := fit.slope(start)) > 0.0)
    return proved[(len(proved) - 1) // 2] if proved else _positive(together, start)
