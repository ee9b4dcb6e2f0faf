"""An iteration-level model of an LLM engine: batching, paged KV blocks, prefix cache, step time.

It has no clock, no socket and no thread: time goes in as an argument and comes out as a duration, so that it can be
run in real time, as the emulated server does, or in virtual time.

    model.submit(request, now)
    step = model.step(now)            # what the engine computes next, and how long that takes
    result = model.complete(step)     # at step.ends_at: the new tokens, the requests that ended, the KV events
"""

from warmroute.engine_model.kv_change import KvChange, KvCleared, KvRemoved, KvStored
from warmroute.engine_model.model import EngineModel, EngineState
from warmroute.engine_model.options import EngineOptions
from warmroute.engine_model.request import Request
from warmroute.engine_model.step import Admission, Output, Step, StepResult

__all__ = [
    "Admission",
    "EngineModel",
    "EngineOptions",
    "EngineState",
    "KvChange",
    "KvCleared",
    "KvRemoved",
    "KvStored",
    "Output",
    "Request",
    "Step",
    "StepResult",
]
