"""What is learned from outcomes: how fast each worker prefills and decodes, and how long answers are.

Both rates are slopes of a straight line:

    time to first byte = overhead + prefill work ahead (ours and that queued before) / prefill rate
    prefill work       = tokens to compute + the tokens before each of them / context
    time per token     = base     + slope x requests running beside

The context is the length of prompt after which attention makes one more token cost twice as much as the first. It is
the same for all workers of a model; of a few lengths that one is taken which has foretold the times of long prompts
best.

A slope is independent of the constant overhead, which differs from fleet to fleet. It is believed as far as the samples
prove it: where prompts are warm all of them have next to nothing to compute, their times differ by other things, and a
plain fit finds any slope, a negative one as soon as one ten times too steep (on the reference benchmark that alone
melted the fleet from 43 requests/s on). So it is the mean of the rate given at the start and what the samples say,
weighted by what they tell. A time that lies far above all others is a wait for something else, a full cache for
example, and counts as a late one.
"""

import math
from dataclasses import dataclass

from warmroute.block import Tier
from warmroute.worker import Rates, WorkerKey

_FADING = 0.98  # per sample: half of the weight lies on the last 34
_TELLING = 3.0  # a sample tells all it can where its distance from the mean squared is this part of the usual (1/3)
_FEW = 12.0  # samples, before which noise cannot be told from slope
_DOUBT = 0.5  # a belief's standard deviation, over itself
_LATE = 3.0  # deviations from the line beyond which a sample counts as no further away
_LEAST_DEVIATION = 0.05  # of the mean: where all samples lie on a line, a worker may still become slower
# Logarithms of paces: workers within the first are taken to be alike, beyond the second to be as different as they
# look; below it is what load does to equal ones (a sixth either way on the simulated reference benchmark).
_ALIKE, _DIFFERENT = math.log(1.25), math.log(1.6)
# Lengths of context that are told apart, and how: a prompt tells of them where half of it is longer than the first; of
# so many such prompts the mean error of a guess is made, in logarithms of the time, each at most the last; the best
# guess must be better than the one in use by so much.
_CONTEXTS = (10_000.0, 20_000.0, 40_000.0, 80_000.0, 160_000.0, math.inf)
_LONG_TOKENS = 8_000
_LONG_PROMPTS = 32
_CLEARLY = 0.85
_MOST_ERROR = 1.0
_MOST_STALLED = 0.9  # of the time of an answer, by the prefill of others
_CLOCK_TICK_S = 1e-9  # no time is shorter: far below it the fits' squares are 0, and they divide by them
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
    context_tokens: float = 40_000.0
    decode_slope_s: float = 0.000_28
    decode_base_s: float = 0.013_5
    output_tokens: float = 256.0


@dataclass(slots=True)
class Middle:
    """The fading mean of points that come one by one."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0

    def move(self, dx: float, dy: float) -> float:
        """Take a point that is so far from the middle; the part of the way that it is away still."""
        self.weight = self.weight * _FADING + 1.0
        self.x += dx / self.weight
        self.y += dy / self.weight
        return 1.0 - 1.0 / self.weight


@dataclass(slots=True)
class SlopeFit:
    """A slope from noisy points, by their distances from the middle of their kind: the mean of a Gaussian posterior.

    A point makes earlier ones fade only as far as it tells of the slope itself: after a thousand prompts of equal
    length the few that had told it are not forgotten (directional forgetting: without it a recursive fit winds up).
    """

    points: float = 0.0
    sum_xx: float = 0.0
    sum_xy: float = 0.0
    informed: float = 0.0
    noise: float = 0.0  # of y around the line: variance

    def add(self, x: float, y: float, middle: Middle, belief: float, kinds: int = 1, pace: float = 1.0) -> None:
        """Take one point of a kind, and move its middle. `belief` is the slope where nothing proves another. Of each of
        `kinds` as many are remembered as of one alone; y of this one is `pace` times as large as of others.
        """
        if not middle.weight:
            middle.x, middle.y = x, y
        dx, dy, usual_y = x - middle.x, (y - middle.y) / pace, middle.y / pace
        if middle.weight >= _FEW:
            dy = min(dy, dx * self.slope(belief, usual_y) + _LATE * self._deviation(usual_y))
        rest = middle.move(dx, dy * pace)
        spread = self.sum_xx / self.informed if self.informed else 0.0
        told = min(1.0, _TELLING * dx * dx / spread) if spread else float(rest > 0.0)
        fading = (1.0 - _FADING) / kinds
        self.informed = self.informed * (1.0 - fading * told) + told
        self.sum_xx = self.sum_xx * (1.0 - fading * told) + dx * dx * rest
        self.sum_xy = self.sum_xy * (1.0 - fading * told) + dx * dy * rest
        self.points = self.points * (1.0 - fading) + 1.0
        residual = (dy - dx * (self.sum_xy / self.sum_xx if self.sum_xx else 0.0)) * rest
        self.noise += (residual * residual - self.noise) / self.points

    def slope(self, belief: float, mean_y: float) -> float:
        """What the points say, drawn to the belief as far as noise hides it; that itself where they say that y falls,
        as something else than x moved it then.
        """
        if self.sum_xx == 0.0:
            return belief
        pull = self._pull(belief, mean_y)
        slope = (self.sum_xy + pull * belief) / (self.sum_xx + pull)
        return slope if slope > 0.0 else belief

    def is_proved(self, belief: float, mean_y: float) -> bool:
        """Whether the points weigh more than the belief."""
        return self.points >= _FEW and self.sum_xx > self._pull(belief, mean_y)

    def _pull(self, belief: float, mean_y: float) -> float:
        """The belief's weight in the units of `sum_xx`."""
        unknown = mean_y * mean_y if self.points < _FEW else 0.0
        return (self.noise + unknown) / (_DOUBT * belief) ** 2

    def _deviation(self, mean_y: float) -> float:
        return max(math.sqrt(self.noise), _LEAST_DEVIATION * mean_y)


class Calibration:
    """Rates of each worker, learned while running."""

    def __init__(self, start: CalibrationStart | None = None) -> None:
        start = start or CalibrationStart()
        self._prefill = _Prefill(1.0 / start.prefill_tokens_per_s, start.context_tokens)
        self._decode = _Decode(start.decode_slope_s, start.decode_base_s)
        self._rates: dict[WorkerKey, Rates] = {}
        self._output_tokens = start.output_tokens
        self._samples = 0

    def rates(self, worker: WorkerKey) -> Rates:
        """The worker's rates as far as they are known."""
        known = self._rates.get(worker)
        if known is None:
            known = self._rates[worker] = self._as_rates(worker)
        return known

    def output_tokens(self, max_tokens: int | None) -> float:
        """How many tokens an answer is expected to have, given the client's limit."""
        return self._output_tokens if max_tokens is None else min(float(max_tokens), self._output_tokens)

    def observe_prefill(self, worker: WorkerKey, tokens_ahead: int, attended_ahead: int, seconds: float) -> None:
        """One first byte: `tokens_ahead` were to be computed before it, ours included, with `attended_ahead` tokens
        before them, summed.
        """
        self._prefill.add(worker, tokens_ahead, attended_ahead, max(seconds, _CLOCK_TICK_S))
        self._sampled(worker)

    def observe_decode(
        self,
        worker: WorkerKey,
        decoding: float,
        prefilled_tokens: int,
        prefilled_attended: int,
        output_tokens: int,
        seconds: float,
    ) -> None:
        """One answer of two tokens or more: `seconds` from its first to its last byte, in which in the mean `decoding`
        requests decoded, itself included, and `prefilled_tokens` of prompts were computed, which it had to wait for;
        `prefilled_attended` were before these, summed.
        """
        seconds = max(seconds, _CLOCK_TICK_S)
        work = self._prefill.work(prefilled_tokens, prefilled_attended)
        stalled_s = min(work * self._prefill.slope(worker), _MOST_STALLED * seconds)
        self._decode.add(worker, max(1.0, decoding), (seconds - stalled_s) / (output_tokens - 1))
        self._sampled(worker)

    def observe_output(self, output_tokens: int) -> None:
        """The length of one whole answer."""
        self._output_tokens += 0.05 * (output_tokens - self._output_tokens)

    def forget(self, worker: WorkerKey) -> None:
        """Drop what was learned of a worker that is gone."""
        self._prefill.fits.pop(worker, None)
        self._decode.middles.pop(worker, None)
        self._look_around()

    def _sampled(self, worker: WorkerKey) -> None:
        self._samples += 1
        self._rates.pop(worker, None)
        if self._samples % _SAMPLES_PER_LOOK == 0:
            self._look_around()

    def _look_around(self) -> None:
        """Find anew what is usual."""
        self._prefill.look_around()
        self._decode.look_around()
        self._rates.clear()

    def _as_rates(self, worker: WorkerKey) -> Rates:
        base_s, slope_s = self._decode.line(worker)
        return Rates(
            min(max(1.0 / self._prefill.slope(worker), _MIN_RATE), _MAX_RATE),
            min(max(slope_s, _MIN_SLOPE_S), _MAX_SLOPE_S),
            base_s,
            _LOAD_TOKENS_PER_S,
            self._prefill.context_tokens,
        )


class _Prefill:
    """Seconds per unit of work: of each worker the slope of its own points, where they differ from the usual."""

    def __init__(self, start: float, context_tokens: float) -> None:
        self.fits: dict[WorkerKey, tuple[SlopeFit, Middle]] = {}
        self._contexts = _Contexts(start, context_tokens)
        self._start = self._usual = start

    @property
    def context_tokens(self) -> float:
        return self._contexts.best.tokens

    def work(self, tokens: int, attended: int) -> float:
        return self._contexts.best.work(tokens, attended)

    def add(self, worker: WorkerKey, tokens: int, attended: int, seconds: float) -> None:
        fit, middle = self.fits.setdefault(worker, (SlopeFit(), Middle()))
        if self._contexts.add(tokens, attended, seconds, len(self.fits)):
            self.fits = {key: (SlopeFit(), Middle()) for key in self.fits}
            self._usual = self._contexts.best.slope(self._start)
            return
        fit.add(self.work(tokens, attended), seconds, middle, self._usual)

    def slope(self, worker: WorkerKey) -> float:
        known = self.fits.get(worker)
        if known is None:
            return self._usual
        fit, middle = known
        return self._usual * _told_apart(fit.slope(self._usual, middle.y) / self._usual)

    def look_around(self) -> None:
        """The usual slope is that of the middle one of those that have proved theirs, of two the quicker; else the one
        of all points together.
        """
        proved = sorted(
            fit.slope(self._start, middle.y)
            for fit, middle in self.fits.values()
            if fit.is_proved(self._start, middle.y)
        )
        together = self._contexts.best.slope(self._start)
        self._usual = proved[(len(proved) - 1) // 2] if proved else together


class _Context:
    """One guess of the context, and the line of all points that goes with it."""

    def __init__(self, tokens: float) -> None:
        self.tokens = tokens
        self._fit, self._middle = SlopeFit(), Middle()
        self.misfit = 0.0

    def work(self, tokens: int, attended: int) -> float:
        return tokens + attended / self.tokens

    def slope(self, belief: float) -> float:
        return self._fit.slope(belief, self._middle.y)

    def judge(self, work: float, seconds: float, belief: float) -> None:
        """Count how far off this guess would have been."""
        told_s = self._middle.y + self.slope(belief) * (work - self._middle.x)
        error = abs(math.log(seconds / max(told_s, _CLOCK_TICK_S)))
        self.misfit += (min(error, _MOST_ERROR) - self.misfit) / _LONG_PROMPTS

    def add(self, work: float, seconds: float, belief: float, workers: int) -> None:
        self._fit.add(work, seconds, self._middle, belief, workers)


class _Contexts:
    """The guesses. Which is best is told by long prompts alone: for others they say the same."""

    def __init__(self, start: float, context_tokens: float) -> None:
        lengths = sorted({*_CONTEXTS, context_tokens})
        self._guesses = [_Context(length) for length in lengths]
        self.best = next(guess for guess in self._guesses if guess.tokens == context_tokens)
        self._start = start
        self._long_prompts = 0

    def add(self, tokens: int, attended: int, seconds: float, workers: int) -> bool:
        """Take one point; whether another guess is the best one now."""
        is_long = attended > _LONG_TOKENS * tokens
        for guess in self._guesses:
            work = guess.work(tokens, attended)
            if is_long:
                guess.judge(work, seconds, self._start)
            guess.add(work, seconds, self._start, workers)
        self._long_prompts += is_long
        return is_long and self._long_prompts > _LONG_PROMPTS and self._changed()

    def _changed(self) -> bool:
        best = min(self._guesses, key=lambda guess: guess.misfit)
        if best.misfit > _CLEARLY * self.best.misfit:
            return False
        self.best = best
        return True


class _Decode:
    """Seconds per token: one line over how many decode, which each worker goes through at a pace of its own.

    The slope is that of the points around the middle of their own worker. Between workers it could not be told from
    their paces: load is shared out so that each looks equally dear, and whoever has more of it by chance would look
    quick, and get more still.
    """

    def __init__(self, start_slope: float, start_base: float) -> None:
        self.middles: dict[WorkerKey, Middle] = {}
        self._fit = SlopeFit()
        self._start = start_slope
        self._usual = start_base, start_slope

    def add(self, worker: WorkerKey, decoding: float, seconds: float) -> None:
        middle = self.middles.setdefault(worker, Middle())
        pace = self.line(worker)[1] / self._usual[1]
        self._fit.add(decoding, seconds, middle, self._start, len(self.middles), pace)

    def line(self, worker: WorkerKey) -> tuple[float, float]:
        """Seconds of a step without others in it, and those that each of them adds."""
        base, slope = self._usual
        middle = self.middles.get(worker)
        if middle is None or middle.weight < _FEW:
            return self._usual
        pace = _told_apart(middle.y / (base + slope * middle.x)) if middle.y > 0.0 else 1.0
        return base * pace, slope * pace

    def look_around(self) -> None:
        seen = [middle for middle in self.middles.values() if middle.weight >= min(_FEW, len(self.middles))]
        if not seen:
            return
        usual_y = sorted(middle.y for middle in seen)[(len(seen) - 1) // 2]
        slope = self._fit.slope(self._start, usual_y)
        bases = sorted(max(0.0, middle.y - slope * middle.x) for middle in seen)
        self._usual = bases[(len(bases) - 1) // 2], slope


def _told_apart(pace: float) -> float:
    """A pace, 1 where it is about 1: between the two bounds it goes from there to what it is."""
    away = math.log(pace)
    believed = min(1.0, max(0.0, (abs(away) - _ALIKE) / (_DIFFERENT - _ALIKE)))
    return math.exp(away * believed)
