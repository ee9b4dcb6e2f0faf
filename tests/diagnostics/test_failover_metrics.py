"""What can be seen of failing workers and of the queue."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from warmroute.admission import RetryBudget
from warmroute.diagnostics.failover_metrics import FailoverCollector, QueueFigures
from warmroute.worker import Sign, WorkerSpec, WorkerTable


def exposed(collector: FailoverCollector) -> Mapping[tuple[str, str | None], float]:
    """Each sample's value by name and its one label."""
    registry = CollectorRegistry()
    registry.register(collector)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    samples = (sample for family in families for sample in family.samples)
    return {(sample.name, next(iter(sample.labels.values()), None)): sample.value for sample in samples}


def test_each_figure_is_what_the_parts_say() -> None:
    table, budget = WorkerTable(limits=True, max_requests=2), RetryBudget()
    sick, busy = table.add(WorkerSpec("http://sick:1")), table.add(WorkerSpec("http://busy:1"))
    for now in (1.0, 2.0, 3.0):
        table.note_end(sick, Sign.FAILURE, now, now)
        table.note_end(busy, Sign.BUSY, now, now)
    for _ in range(2):
        table.book(busy, "r", 0, None)
    table.note_sent(sick, 3.0)
    budget.take(0.0)
    queue = QueueFigures(3, 1.5, {"routed": 7, "queue-full": 2}, 12.5)
    looked_at = [(sick, 1.0), (busy, None)]
    shown = exposed(FailoverCollector(table, budget, lambda: queue, lambda: looked_at, lambda: 3.5))
    assert shown["warmroute_worker_circuit_closed", sick.id] == 0
    assert shown["warmroute_worker_circuit_closed", busy.id] == 1
    assert shown["warmroute_worker_circuit_opened_total", sick.id] == 1
    assert shown["warmroute_worker_busy_answers_total", busy.id] == 3
    assert (shown["warmroute_worker_saturated", sick.id], shown["warmroute_worker_saturated", busy.id]) == (0, 1)
    assert shown["warmroute_worker_limit", busy.id] == 2
    assert shown["warmroute_worker_look_age_seconds", sick.id] == 2.5
    assert ("warmroute_worker_look_age_seconds", busy.id) not in shown
    assert (shown["warmroute_retries_total", None], shown["warmroute_retries_refused_total", None]) == (1, 0)
    assert shown["warmroute_last_resorts_total", None] == 1
    assert (shown["warmroute_queue_requests", None], shown["warmroute_queue_oldest_seconds", None]) == (3, 1.5)
    assert shown["warmroute_queue_ends_total", "queue-full"] == 2
    assert shown["warmroute_queue_waited_seconds_total", None] == 12.5
