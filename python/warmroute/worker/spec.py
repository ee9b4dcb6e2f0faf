"""What is said of a worker: by a person, by its engine, and by what was measured of it."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from warmroute.block import Tier

WorkerId = NewType("WorkerId", str)
"""A worker's base URL without a trailing slash; stable over its restarts."""

WorkerKey = NewType("WorkerKey", int)
"""One registration of a worker; never used again, so a reused address starts with nothing."""

LaneKey = NewType("LaneKey", int)
"""A lane in the prefix index; never used twice, so nothing that was said of a lane is ever credited to another."""

# Above it no block size and no number of blocks is meant: what is beyond is a mistake, and overflows the index.
LARGEST_COUNT = 2**31 - 1


class WorkerStatus(StrEnum):
    """Whether requests may be sent to a worker."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"  # well, and to be left alone: what it has is finished, nothing more comes
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a person says of a worker; None means: ask the worker. `name` is what people and clients call it.

    `kv_ranks`: its data-parallel ranks; rank r publishes on the ports of `kv_events` and `kv_replay` plus r.
    `max_requests`: the most requests that it is to have in flight, over all its ranks.
    """

    url: str
    model: str | None = None
    block_size: int | None = None
    capacity_blocks: int | None = None
    kv_events: str | None = None
    kv_replay: str | None = None
    kv_topic: str = ""
    kv_ranks: int | None = None
    name: str | None = None
    max_requests: int | None = None

    @property
    def id(self) -> WorkerId:
        return WorkerId(self.url.rstrip("/"))


def default_name(worker_id: WorkerId) -> str:
    """What people and clients call a worker that was given no name: the same after a restart, and no address."""
    return "w-" + hashlib.sha256(worker_id.encode()).hexdigest()[:6]


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What is known of a worker's engine.

    `models` maps each name that the worker answers to, to whether it is an adapter (and so keeps its own prefixes).
    `block_size` is in tokens, `capacity_blocks` in blocks of that size, of each of its caches (data-parallel ranks).
    `engine` is its kind in one word (vllm, sglang), None where it does not say. `roots` has, of models that are no
    adapters, the folder or hub id that they were loaded from, as the engine's machine knows it. `max_running_requests`
    is the most requests that each rank runs at once; others wait in the engine.
    """

    models: Mapping[str, bool] = field(default_factory=dict)
    block_size: int | None = None
    capacity_blocks: int | None = None
    max_model_len: int | None = None
    engine: str | None = None
    roots: Mapping[str, str] = field(default_factory=dict)
    max_running_requests: int | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Requests that the worker itself counted, and when (seconds, monotonic) it was asked.

    waiting: those of `requests` that wait in its own queue; None where it does not tell them apart.
    """

    requests: int
    kv_usage: float | None
    at: float
    foreign_requests: int = 0
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a worker is.

    prefill_tokens_per_s: prompt tokens computed per second when nothing else runs, at the beginning of a prompt.
    context_tokens: after so many tokens of a prompt one more takes twice as long, as it attends to all of them.
    decode_slope_s: seconds that each further running request adds to a decode step.
    decode_base_s: seconds of a decode step without them.
    load_tokens_per_s: prompt tokens per second brought back from a slower tier; absent means: recomputed.
    """

    prefill_tokens_per_s: float
    decode_slope_s: float
    decode_base_s: float = 0.0
    load_tokens_per_s: Mapping[Tier, float] = field(default_factory=dict)
    context_tokens: float = math.inf

    def prefill_s(self, tokens: int, attended: int) -> float:
        """Seconds to compute prompt tokens, before which there are `attended` tokens, summed over all of them."""
        return (tokens + attended / self.context_tokens) / self.prefill_tokens_per_s
