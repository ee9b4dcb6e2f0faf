"""The model does, step by step, what vLLM 0.32's own scheduler and block pool did in recorded worlds.

`golden/record.py` made the record. Compared are the requests of each step and their order, tokens found in the cache,
preemptions, blocks in use, and every KV event with its tokens and parent.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from warmroute.block import Namespace
from warmroute.engine_model import EngineModel, EngineOptions, KvChange, KvRemoved, KvStored, Request, Step

_RECORD = Path(__file__).parent / "golden" / "vllm-0.32-scheduler.jsonl"
_WORLDS = [json.loads(line) for line in _RECORD.read_text().splitlines()]


class Numbering:
    """Block hashes numbered in the order of their first store, as in the record."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def plain(self, change: KvChange) -> list[Any]:
        if isinstance(change, KvStored):
            hashes = [self._numbers.setdefault(h, len(self._numbers)) for h in change.block_hashes]
            parent = None if change.parent is None else self._numbers[change.parent]
            return ["stored", parent, hashes, list(change.token_ids)]
        return ["removed", self._numbers[change.block_hash]] if isinstance(change, KvRemoved) else ["cleared"]


def _told(engine: EngineModel, step: Step, numbering: Numbering) -> dict[str, Any]:
    """What the record has of a step, which ends here."""
    result = engine.complete(step)
    return {
        "scheduled": [live.request_id for live in step.batch.scheduled],
        "cached": dict(step.admitted),
        "preempted": sorted(step.preempted),
        "events": [numbering.plain(change) for change in result.changes],
        "used_blocks": round(engine.state().kv_usage * engine.options.num_blocks),
    }


@pytest.mark.parametrize("world", _WORLDS, ids=range(len(_WORLDS)))
def test_steps_events_and_preemptions_are_vllms(world: dict[str, Any]) -> None:
    engine = EngineModel(EngineOptions(**world["options"], request_overhead_s=0.0))
    recorded = {step["at"]: step for step in world["steps"]}
    numbering = Numbering()
    for now in range(max(recorded) + 1):
        for request in world["requests"]:
            if request["arrival"] == now:
                namespace = Namespace(salt=request["salt"])
                engine.submit(Request(request["id"], request["prompt"], request["answer"], namespace), now)
            if request["aborted"] == now:
                engine.abort(request["id"])
        if world["reset"] == now:
            engine.reset_prefix_cache()
        step = engine.step(now)
        engine.check_integrity()
        assert (step is not None) == (now in recorded)
        if step is not None:
            told = _told(engine, step, numbering)
            assert {"at": now, **told} == recorded[now]
    assert engine.wake_at(0.0) is None


def test_the_record_has_what_the_comparison_is_about() -> None:
    steps = [step for world in _WORLDS for step in world["steps"]]
    kinds = [event[0] for step in steps for event in step["events"]]
    assert sum(len(step["preempted"]) for step in steps) > 15
    assert min(kinds.count(kind) for kind in ("stored", "removed")) > 200
    assert "cleared" in kinds
    assert any(step["cached"].values() for step in steps)
