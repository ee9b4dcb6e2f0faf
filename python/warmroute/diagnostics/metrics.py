"""Prometheus metrics of what the router did. Kept as plain numbers and made into metrics when somebody looks.

`prometheus_client`'s own counters take 1 to 2 us each, with a lock and a search by labels: for the seven of a request
more than the decision itself.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.openai_api import Match
from warmroute.router import Decision, Outcome, Refusal, RouteRequest

# The time at which each series was made is of no use to anybody and doubles their number.
disable_created_metrics()  # type: ignore[no-untyped-call]

_TTFT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0)


@dataclass(slots=True)
class _WorkerCounts:
    """What was counted of one worker; `reported` is None until it has reported something.

    `first_bytes` has a number for each bucket, the last one above all of them.
    """

    prompt_tokens: int = 0
    predicted: int = 0
    reported: int | None = None
    first_byte_s: float = 0.0
    first_bytes: list[int] = field(default_factory=lambda: [0] * (len(_TTFT_BUCKETS) + 1))
    ends: Counter[str] = field(default_factory=Counter)
    predictions: Counter[str] = field(default_factory=Counter)

    def buckets(self) -> list[tuple[str, float]]:
        """Bounds, and how many first bytes came within each."""
        total, found = 0, []
        for bound, count in zip((*map(str, _TTFT_BUCKETS), "+Inf"), self.first_bytes, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class RouterMetrics(Collector):
    """Counts what the router did; one of its observers. `registry` is for whoever has more to show."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._workers: dict[str, _WorkerCounts] = {}
        self._refusals: Counter[str] = Counter()
        self.registry.register(self)

    def decided(self, decision: Decision) -> None:
        """Count the prompt and what of it should be cached."""
        counts = self._of(decision.worker.id)
        counts.prompt_tokens += decision.request.prompt_tokens
        counts.predicted += decision.cached_tokens

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        """Count a refusal."""
        self._refusals[refusal.reason.value] += 1

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        """Count how a request ended and how well its cached tokens were predicted."""
        if decision.worker.removed:
            return  # its series have been dropped, and would come back for good
        counts = self._of(decision.worker.id)
        counts.ends[_end(outcome)] += 1
        if outcome.first_byte_at is not None:
            waited = outcome.first_byte_at - decision.decided_at
            counts.first_bytes[bisect_left(_TTFT_BUCKETS, waited)] += 1
            counts.first_byte_s += waited
        if decision.request.match is not Match.EXACT or not outcome.completed:
            return
        counts.predictions[prediction_result(decision.cached_tokens, outcome.cached_tokens)] += 1
        if outcome.cached_tokens is not None:
            counts.reported = (counts.reported or 0) + outcome.cached_tokens

    def forget(self, worker_id: str) -> None:
        """Drop the series of a worker that is gone, so that they do not grow with each address ever used."""
        self._workers.pop(worker_id, None)

    def expose(self) -> bytes:
        """All metrics in Prometheus text."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """One family for each figure."""
        refusals = CounterMetricFamily(
            "warmroute_refusals", "Requests for which no worker was found.", labels=["reason"]
        )
        for reason, count in self._refusals.items():
            refusals.add_metric([reason], count)
        yield refusals
        yield self._by("warmroute_requests", "Requests that ended, by worker and end.", "end", "ends")
        yield self._sum("warmroute_prompt_tokens", "Prompt tokens of dispatched requests.", "prompt_tokens")
        yield self._sum("warmroute_predicted_cached_tokens", "Cached tokens predicted at dispatch.", "predicted")
        yield self._sum("warmroute_reported_cached_tokens", "Cached tokens that engines reported.", "reported")
        about = "Predictions of cached tokens against the engine's report."
        yield self._by("warmroute_predictions", about, "result", "predictions")
        yield self._first_bytes()

    def _of(self, worker: str) -> _WorkerCounts:
        counts = self._workers.get(worker)
        if counts is None:
            counts = self._workers[worker] = _WorkerCounts()
        return counts

    def _sum(self, name: str, about: str, figure: str) -> Metric:
        family = CounterMetricFamily(name, about, labels=["worker"])
        for worker, counts in self._workers.items():
            count = getattr(counts, figure)
            if count is not None:
                family.add_metric([worker], count)
        return family

    def _by(self, name: str, about: str, label: str, figure: str) -> Metric:
        family = CounterMetricFamily(name, about, labels=["worker", label])
        for worker, counts in self._workers.items():
            found: Mapping[str, int] = getattr(counts, figure)
            for value, count in found.items():
                family.add_metric([worker, value], count)
        return family

    def _first_bytes(self) -> Metric:
        about = "From dispatch to the first byte of the answer."
        family = HistogramMetricFamily("warmroute_time_to_first_byte_seconds", about, labels=["worker"])
        for worker, counts in self._workers.items():
            family.add_metric([worker], buckets=counts.buckets(), sum_value=counts.first_byte_s)
        return family


def prediction_result(predicted: int, reported: int | None) -> str:
    """`exact`, `over`, `under`, or `unknown` where the engine reported nothing: unknown is not zero."""
    if reported is None:
        return "unknown"
    if predicted == reported:
        return "exact"
    return "over" if predicted > reported else "under"


def _end(outcome: Outcome) -> str:
    if outcome.worker_failed:
        return "worker-failed"
    if not outcome.completed:
        return "client-gone"
    return "error" if outcome.status is not None and outcome.status >= 400 else "completed"
