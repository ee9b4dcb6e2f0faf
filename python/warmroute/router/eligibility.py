"""Which workers may get a request, or why none may."""

from collections.abc import Collection, Sequence

from warmroute.errors import RefusalReason
from warmroute.router.decision import Refusal
from warmroute.worker import Worker, WorkerId, WorkerStatus, WorkerTable

# Workers that a refusal names; a fleet of hundreds would fill pages.
_WORKERS_TOLD = 3


def eligible(table: WorkerTable, model: str | None, tried: Collection[WorkerId], now: float) -> list[Worker] | Refusal:
    """The workers that may get a request for `model`, or why there is none. A body without a model fits any worker.

    Workers that have just failed are left out, unless there is nobody else: never are all of them closed.
    """
    serving = [worker for worker in table if model is None or model in worker.models]
    ready = [worker for worker in serving if worker.status is WorkerStatus.READY]
    untried = [worker for worker in ready if worker.id not in tried] if tried else ready
    if untried:
        return [worker for worker in untried if worker.avoid_until <= now] or untried
    if ready:
        return Refusal(RefusalReason.WORKERS_EXHAUSTED, f"all {len(ready)} ready workers failed this request")
    if not serving and _all_asked(table):
        known = sorted({name for worker in table for name in worker.models})
        return Refusal(RefusalReason.UNKNOWN_MODEL, f"no worker serves model '{model}'; served: {', '.join(known)}")
    return Refusal(RefusalReason.NO_WORKER_READY, _why_none_ready(model, serving or list(table)))


def _all_asked(table: WorkerTable) -> bool:
    """Whether it is known what is served: a worker is ready, and none is still waiting for its first look."""
    statuses = {worker.status for worker in table}
    return WorkerStatus.READY in statuses and WorkerStatus.STARTING not in statuses


def _why_none_ready(model: str | None, workers: Sequence[Worker]) -> str:
    if not workers:
        return "no worker is registered"
    asked = f"model '{model}'" if model else "this"
    told = "; ".join(f"{worker.id} is {worker.status} ({worker.status_reason})" for worker in workers[:_WORKERS_TOLD])
    more = f"; and {len(workers) - _WORKERS_TOLD} more" if len(workers) > _WORKERS_TOLD else ""
    return f"no worker that serves {asked} is ready: {told}{more}"
