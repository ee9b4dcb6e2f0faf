"""Which workers may get a request, or why none may."""

from collections.abc import Collection, Sequence

from warmroute.errors import RefusalReason
from warmroute.router.decision import Refusal
from warmroute.worker import Worker, WorkerId, WorkerStatus, WorkerTable

# Workers that a refusal names; a fleet of hundreds would fill pages.
_WORKERS_TOLD = 3


def eligible(
    table: WorkerTable, model: str | None, tried: Collection[WorkerId], now: float
) -> Sequence[Worker] | Refusal:
    """The workers that may get a request for `model`, or why there is none. A body without a model fits any worker.

    Workers that are broken, busy or saturated are left out unless there is nobody else: never are all of them closed.
    Those that have just come up get their share at first, no more. The sequence is the table's own: not to be changed.
    """
    ready = table.ready(model)
    untried = [worker for worker in ready if worker.id not in tried] if tried else ready
    if untried:
        if not table.set_aside and not table.saturated:
            return untried
        well = table.well(untried, now)
        roomy = table.with_room(well, now)
        return table.warm(roomy, now) if roomy else well
    if ready:
        return Refusal(RefusalReason.WORKERS_EXHAUSTED, f"all {len(ready)} ready workers failed this request")
    serving = table.serving(model)
    if not serving and _all_asked(table):
        known = sorted({name for worker in table for name in worker.models})
        return Refusal(RefusalReason.UNKNOWN_MODEL, f"no worker serves model '{model}'; served: {', '.join(known)}")
    return Refusal(RefusalReason.NO_WORKER_READY, _why_none_ready(model, serving or list(table)))


def all_saturated(table: WorkerTable, model: str | None, tried: Collection[WorkerId], now: float) -> bool:
    """Whether each worker that a request should go to has as many as it runs at once."""
    untried = [worker for worker in table.ready(model) if worker.id not in tried]
    return bool(untried) and not table.with_room(table.well(untried, now), now)


def anyone_well(table: WorkerTable, model: str | None, tried: Collection[WorkerId], now: float) -> bool:
    """Whether there is a worker left for a second try, against which nothing speaks."""
    untried = [worker for worker in table.ready(model) if worker.id not in tried]
    return any(worker.circuit.allows(now) for worker in untried)


def _all_asked(table: WorkerTable) -> bool:
    """Whether it is known what is served: a worker is ready, and none is still waiting for its first look."""
    statuses = {worker.status for worker in table}
    return WorkerStatus.READY in statuses and WorkerStatus.STARTING not in statuses


def _why_none_ready(model: str | None, workers: Sequence[Worker]) -> str:
    if not workers:
        return "no worker is registered"
    asked = f"model '{model}'" if model else "this"
    told = "; ".join(
        f"{worker.shown} is {worker.status} ({worker.status_reason})" for worker in workers[:_WORKERS_TOLD]
    )
    more = f"; and {len(workers) - _WORKERS_TOLD} more" if len(workers) > _WORKERS_TOLD else ""
    return f"no worker that serves {asked} is ready: {told}{more}"
