"""Prometheus metrics of what the router is: workers, index and event streams, read at the moment of the scrape."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from warmroute.openai_api import Match
from warmroute.router import Router
from warmroute.worker import Worker, WorkerStatus


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
