"""Prometheus metrics of the router. Figures that somebody else owns are read when scraped, never copied."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.openai_api import Match
from warmroute.router import Decision, Outcome, Refusal, Router, RouteRequest
from warmroute.worker import Worker, WorkerStatus

# The time at which each series was made is of no use to anybody and doubles their number.
disable_created_metrics()  # type: ignore[no-untyped-call]

_TTFT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0)


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What was heard of one worker's KV events."""

    worker: str
    connected: bool
    complete: bool
    batches: int
    gaps: int
    replays: int
    restarts: int
    rejected: int
    undecodable: int


class RouterMetrics:
    """Counts what the router did; one of its observers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "warmroute_requests", "Requests that ended, by worker and end.", ["worker", "end"], registry=self.registry
        )
        self._refusals = Counter(
            "warmroute_refusals", "Requests for which no worker was found.", ["reason"], registry=self.registry
        )
        self._prompt_tokens = Counter(
            "warmroute_prompt_tokens", "Prompt tokens of dispatched requests.", ["worker"], registry=self.registry
        )
        self._predicted = Counter(
            "warmroute_predicted_cached_tokens",
            "Cached tokens predicted at dispatch.",
            ["worker"],
            registry=self.registry,
        )
        self._reported = Counter(
            "warmroute_reported_cached_tokens",
            "Cached tokens that engines reported.",
            ["worker"],
            registry=self.registry,
        )
        self._predictions = Counter(
            "warmroute_predictions",
            "Predictions of cached tokens against the engine's report.",
            ["worker", "result"],
            registry=self.registry,
        )
        self._first_byte = Histogram(
            "warmroute_time_to_first_byte_seconds",
            "From dispatch to the first byte of the answer.",
            ["worker"],
            buckets=_TTFT_BUCKETS,
            registry=self.registry,
        )

    def decided(self, decision: Decision) -> None:
        """Count the prompt and what of it should be cached."""
        self._prompt_tokens.labels(decision.worker.id).inc(decision.request.prompt_tokens)
        self._predicted.labels(decision.worker.id).inc(decision.cached_tokens)

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        """Count a refusal."""
        self._refusals.labels(refusal.reason.value).inc()

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        """Count how a request ended and how well its cached tokens were predicted."""
        if decision.worker.removed:
            return  # its series have been dropped, and would come back for good
        worker = decision.worker.id
        self._requests.labels(worker, _end(outcome)).inc()
        if outcome.first_byte_at is not None:
            self._first_byte.labels(worker).observe(outcome.first_byte_at - decision.decided_at)
        if decision.request.match is not Match.EXACT or not outcome.completed:
            return
        self._predictions.labels(worker, prediction_result(decision.cached_tokens, outcome.cached_tokens)).inc()
        if outcome.cached_tokens is not None:
            self._reported.labels(worker).inc(outcome.cached_tokens)

    def forget(self, worker_id: str) -> None:
        """Drop the series of a worker that is gone, so that they do not grow with each address ever used."""
        for metric in (self._prompt_tokens, self._predicted, self._reported, self._first_byte):
            metric.remove_by_labels({"worker": worker_id})
        for metric in (self._requests, self._predictions):
            metric.remove_by_labels({"worker": worker_id})

    def expose(self) -> bytes:
        """All metrics in Prometheus text."""
        return generate_latest(self.registry)


def prediction_result(predicted: int, reported: int | None) -> str:
    """`exact`, `over`, `under`, or `unknown` where the engine reported nothing: unknown is not zero."""
    if reported is None:
        return "unknown"
    if predicted == reported:
        return "exact"
    return "over" if predicted > reported else "under"


class StateCollector(Collector):
    """Reads workers, index and event streams at the moment of the scrape.

    `prompts`: requests with a prompt, by how well it was known and the word for why not better.
    """

    def __init__(
        self,
        router: Router,
        events: Callable[[], Iterable[EventCounts]],
        prompts: Mapping[tuple[Match, str], int] | None = None,
    ) -> None:
        self._prompts = prompts if prompts is not None else {}
        self._table = router.table
        self._index = router.index
        self._block_sizes = router.block_sizes
        self._events = events

    def collect(self) -> Iterator[Metric]:
        """One family for each figure."""
        yield from self._workers()
        yield from self._event_streams()
        yield self._known_prompts()
        for name, value in sorted(self._index.stats().items()):
            yield GaugeMetricFamily(f"warmroute_index_{name}", f"The index's own count of {name}.", value=value)
        yield CounterMetricFamily(
            "warmroute_block_size_mismatches",
            "Lanes whose KV events have blocks of other sizes than their worker told.",
            value=self._block_sizes.mismatches,
        )

    def _known_prompts(self) -> Metric:
        counter = CounterMetricFamily(
            "warmroute_prompts", "Requests with a prompt, by how well it was known.", labels=["match", "reason"]
        )
        for (match, reason), count in self._prompts.items():
            counter.add_metric([match, reason], count)
        return counter

    def _workers(self) -> Iterator[Metric]:
        figures: list[tuple[str, str, Callable[[Worker], float]]] = [
            (
                "warmroute_worker_ready",
                "1 when requests may be sent.",
                lambda worker: worker.status is WorkerStatus.READY,
            ),
            ("warmroute_worker_requests", "Requests in flight.", lambda worker: worker.requests),
            ("warmroute_worker_queued_tokens", "Prompt tokens to prefill.", lambda worker: worker.queued_tokens),
            ("warmroute_worker_blocks", "Blocks in the index, over all ranks.", self._blocks),
        ]
        for name, documentation, figure in figures:
            family = GaugeMetricFamily(name, documentation, labels=["worker"])
            for worker in self._table:
                family.add_metric([worker.id], float(figure(worker)))
            yield family

    def _blocks(self, worker: Worker) -> int:
        return sum(self._index.blocks(lane.key) for lane in worker.lanes)

    def _event_streams(self) -> Iterator[Metric]:
        streams = list(self._events())
        for name in ("connected", "complete"):
            gauge = GaugeMetricFamily(
                f"warmroute_kv_events_{name}", f"1 when the event stream is {name}.", labels=["worker"]
            )
            for stream in streams:
                gauge.add_metric([stream.worker], float(getattr(stream, name)))
            yield gauge
        for name in ("batches", "gaps", "replays", "restarts", "rejected", "undecodable"):
            counter = CounterMetricFamily(f"warmroute_kv_event_{name}", f"KV events: {name}.", labels=["worker"])
            for stream in streams:
                counter.add_metric([stream.worker], float(getattr(stream, name)))
            yield counter


def _end(outcome: Outcome) -> str:
    if outcome.worker_failed:
        return "worker-failed"
    if not outcome.completed:
        return "client-gone"
    return "error" if outcome.status is not None and outcome.status >= 400 else "completed"
