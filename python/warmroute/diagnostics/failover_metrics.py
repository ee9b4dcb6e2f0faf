"""How workers fail and how requests wait, as Prometheus metrics, read at the moment of the scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.admission import RetryBudget
from warmroute.worker import LARGEST_COUNT, CircuitState, Worker, WorkerTable


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """Of the queue: how many wait, the oldest for how long; what became of the others, and how long they waited."""

    waiting: int
    oldest_s: float
    ends: Mapping[str, int]
    waited_s: float


class FailoverCollector(Collector):
    """Reads workers, budget and queue; `looked_at` gives the time of the last look at each worker, None before it."""

    def __init__(
        self,
        table: WorkerTable,
        budget: RetryBudget,
        queue: Callable[[], QueueFigures],
        looked_at: Callable[[], Iterable[tuple[Worker, float | None]]],
        clock: Callable[[], float],
    ) -> None:
        self._table = table
        self._budget = budget
        self._queue = queue
        self._looked_at = looked_at
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """One family for each figure."""
        now = self._clock()
        yield self._gauge("circuit_closed", "1 when the worker's circuit is closed.", lambda w: _is_closed(w, now))
        yield self._gauge("saturated", "1 when one more request would only wait there.", lambda w: w.is_full(now))
        limits = GaugeMetricFamily("warmroute_worker_limit", "Requests at which it is full.", labels=["worker"])
        for worker in self._table:
            if worker.full_at < LARGEST_COUNT:
                limits.add_metric([worker.id], worker.full_at)
        yield limits
        yield self._counter("circuit_opened", "Times that its circuit was opened.", lambda w: w.circuit.opened)
        yield self._counter("busy_answers", "Answers 429 and 503.", lambda w: w.circuit.busy_answers)
        yield self._ages(now)
        last = "Requests sent to a worker that was set aside, as no other could take them."
        yield CounterMetricFamily("warmroute_last_resorts", last, value=self._table.last_resorts)
        yield CounterMetricFamily("warmroute_retries", "Second tries that were made.", value=self._budget.spent)
        refused = "Second tries that were not made, as too many requests failed."
        yield CounterMetricFamily("warmroute_retries_refused", refused, value=self._budget.refused)
        yield from self._queued()

    def _queued(self) -> Iterator[Metric]:
        figures = self._queue()
        yield GaugeMetricFamily("warmroute_queue_requests", "Requests that wait for room.", value=figures.waiting)
        oldest = "For how long the one has waited who waits longest."
        yield GaugeMetricFamily("warmroute_queue_oldest_seconds", oldest, value=figures.oldest_s)
        ends = CounterMetricFamily("warmroute_queue_ends", "What became of those who waited.", labels=["end"])
        for end, count in figures.ends.items():
            ends.add_metric([end], count)
        yield ends
        waited = "How long all of those had waited."
        yield CounterMetricFamily("warmroute_queue_waited_seconds", waited, value=figures.waited_s)

    def _ages(self, now: float) -> Metric:
        about = "Time since the worker was looked at; one that grows tells of a watching that has stopped."
        family = GaugeMetricFamily("warmroute_worker_look_age_seconds", about, labels=["worker"])
        for worker, looked_at in self._looked_at():
            if looked_at is not None:
                family.add_metric([worker.id], now - looked_at)
        return family

    def _gauge(self, name: str, about: str, figure: Callable[[Worker], float]) -> Metric:
        family = GaugeMetricFamily(f"warmroute_worker_{name}", about, labels=["worker"])
        for worker in self._table:
            family.add_metric([worker.id], float(figure(worker)))
        return family

    def _counter(self, name: str, about: str, figure: Callable[[Worker], float]) -> Metric:
        family = CounterMetricFamily(f"warmroute_worker_{name}", about, labels=["worker"])
        for worker in self._table:
            family.add_metric([worker.id], float(figure(worker)))
        return family


def _is_closed(worker: Worker, now: float) -> bool:
    return worker.circuit.state(now) is CircuitState.CLOSED
