"""What an engine does, as a table that can be written down by hand before it is run."""

from collections.abc import Sequence
from typing import NamedTuple

from engine_model.worlds import Listener
from warmroute.block import Tier
from warmroute.engine_model import EngineModel, Request, Step


class Row(NamedTuple):
    """One step: from when to when; who was in it, as `name[first token:last]` where a prompt was computed and as `name`
    where a token was decoded; who lost its blocks; who ended.
    """

    start: float
    end: float
    work: str
    preempted: str = ""
    finished: str = ""


def timetable(engine: EngineModel, arrivals: Sequence[tuple[float, Request]], most: int = 1) -> list[Row]:
    """Run to the end; every tier is compared with what a listener to the changes believes after each step."""
    rows: list[Row] = []
    listeners = {tier: Listener(engine.cached_hashes(tier), tier) for tier in (Tier.DEVICE, Tier.HOST, Tier.DISK)}
    now, coming = 0.0, list(arrivals)
    while True:
        wake_at = engine.wake_at(now)
        if coming and (wake_at is None or coming[0][0] <= wake_at):
            now = max(now, coming[0][0])
            engine.submit(coming.pop(0)[1], now)
            continue
        if wake_at is None:
            return rows
        now = wake_at
        step = engine.step(now, most)
        engine.check_integrity()
        if step is None:
            continue
        while coming and coming[0][0] < step.ends_at:
            at, request = coming.pop(0)
            engine.submit(request, at)
        row = Row(step.started_at, step.ends_at, _work(step), " ".join(step.preempted))
        now, result = step.ends_at, engine.complete(step)
        engine.check_integrity()
        rows.append(row._replace(finished=" ".join(output.request_id for output in result.outputs if output.finished)))
        for tier, listener in listeners.items():
            listener.hear(result.changes)
            assert listener.believed() == engine.cached_hashes(tier)


def _work(step: Step) -> str:
    chunks = {chunk.request_id: f"[{chunk.start}:{chunk.start + chunk.tokens}]" for chunk in step.batch.chunks}
    times = f" x{step.iterations}" if step.iterations > 1 else ""
    return " ".join(live.request_id + chunks.get(live.request_id, "") for live in step.batch.scheduled) + times
