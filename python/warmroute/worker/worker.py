"""One worker, its lanes, and the load on them.

A lane is one KV cache of a worker: one data-parallel rank, with an event sequence of its own. Every worker has at least
one. The prefix index knows lanes only; its `worker` is a lane's key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warmroute.worker.circuit import Circuit
from warmroute.worker.spec import (
    LARGEST_COUNT,
    LaneKey,
    LoadReport,
    WorkerFacts,
    WorkerId,
    WorkerKey,
    WorkerSpec,
    WorkerStatus,
    default_name,
)

# A figure scraped from a worker says nothing about now once it is this old; probes come each second by default.
REPORT_MAX_AGE_S = 5.0

# Those that came since the engine's last step wait for a moment only: one or two, more where many run.
_FEWEST_WAITING, _WAITING_SHARE = 2, 16


@dataclass(slots=True)
class Load:
    """The load on a worker at one moment.

    requests: in flight, ours and, where a fresh report shows more, those of others.
    decoding: of ours, those that have got their first byte.
    queued_tokens: prompt tokens still to prefill for ours that have not.
    queued_attended: the tokens before each of these, summed: what attention has to do for them.
    waiting: in the engine's own queue at the last look, ours or not; 0 where that is old, or not told.
    """

    requests: int = 0
    decoding: int = 0
    queued_tokens: int = 0
    waiting: int = 0
    queued_attended: int = 0


@dataclass(slots=True, eq=False)
class Lane:
    """One KV cache of a worker and the load on it; `rank` is None where the worker has told of no ranks.

    `followed`: its KV events are heard. `decoding_seconds`: the integral over time, up to `counted_at`, of the
    requests that have their first byte. `prefilled_tokens`: the prompt tokens of ours that it has computed, and
    `prefilled_attended` those before each of them. Only `WorkerTable` writes to it.
    """

    key: LaneKey
    rank: int | None = None
    followed: bool = False
    requests: int = 0
    prefilling: int = 0
    queued_tokens: int = 0
    queued_attended: int = 0
    decoding_seconds: float = 0.0
    counted_at: float = 0.0
    prefilled_tokens: int = 0
    prefilled_attended: int = 0

    @property
    def prefilled(self) -> tuple[int, int]:
        """`prefilled_tokens` and `prefilled_attended`."""
        return self.prefilled_tokens, self.prefilled_attended

    def count_until(self, now: float) -> float:
        """The integral as of now; times that come out of order count for nothing."""
        if now > self.counted_at:
            self.decoding_seconds += (self.requests - self.prefilling) * (now - self.counted_at)
            self.counted_at = now
        return self.decoding_seconds


@dataclass(slots=True)
class Booking:
    """One request's share of the load on a worker and its lane, from dispatch to release.

    prefill_attended: the tokens before each of its `prefill_tokens`, summed.
    since, until: the lane's `decoding_seconds` at its first byte and at its release.
    prefilled_since, prefilled_until: its `prefilled_tokens` and `prefilled_attended` then.
    """

    worker: "Worker"
    lane: Lane
    request_id: str
    prefill_tokens: int
    prefill_attended: int = 0
    since: float = 0.0
    until: float = 0.0
    prefilled_since: tuple[int, int] = (0, 0)
    prefilled_until: tuple[int, int] = (0, 0)
    prefilling: bool = True
    released: bool = False


@dataclass(slots=True, eq=False)
class Worker:
    """One registered worker. Only `WorkerTable` writes to it.

    full_at: in-flight requests at which it is saturated: one more would only wait in its engine.
    warming_since: when it came up, while it still gets less than its share.
    shown: what answers and logs call it.
    """

    key: WorkerKey
    spec: WorkerSpec
    lanes: tuple[Lane, ...]
    facts: WorkerFacts = field(default_factory=WorkerFacts)
    status: WorkerStatus = WorkerStatus.STARTING
    status_reason: str = "not asked yet"
    report: LoadReport | None = None
    requests: int = 0
    prefilling: int = 0
    queued_tokens: int = 0
    queued_attended: int = 0
    removed: bool = False
    draining: bool = False
    full_at: int = LARGEST_COUNT
    warming_since: float | None = None
    circuit: Circuit = field(default_factory=Circuit)
    id: WorkerId = field(init=False)
    name: str = field(init=False)
    shown: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.spec.id
        self.name = self.shown = self.spec.name or default_name(self.id)

    @property
    def shows_address(self) -> bool:
        """Whether answers and logs call it by its address."""
        return self.shown == self.id

    @property
    def block_size(self) -> int | None:
        return self.spec.block_size or self.facts.block_size

    @property
    def capacity_blocks(self) -> int | None:
        return self.spec.capacity_blocks or self.facts.capacity_blocks

    @property
    def models(self) -> Mapping[str, bool]:
        if self.facts.models or self.spec.model is None:
            return self.facts.models
        return {self.spec.model: False}

    def load(self, now: float) -> Load:
        """The load on the whole worker at `now`; an old report is left out."""
        foreign, waiting = self._foreign(now), self._waiting(now)
        decoding = self.requests - self.prefilling
        return Load(self.requests + foreign, decoding, self.queued_tokens, waiting, self.queued_attended)

    def lane_load(self, lane: Lane, now: float) -> Load:
        """The load that a request on this lane meets at `now`; others' requests are taken as spread evenly."""
        lanes = len(self.lanes)
        foreign, waiting = self._foreign(now) // lanes, self._waiting(now) // lanes
        decoding = lane.requests - lane.prefilling
        return Load(lane.requests + foreign, decoding, lane.queued_tokens, waiting, lane.queued_attended)

    def is_full(self, now: float) -> bool:
        """Whether one more request would only wait in its engine; others' requests count."""
        return self.requests + self._foreign(now) >= self.full_at

    def lane_of(self, rank: int | None) -> Lane | None:
        """The lane of this rank, or None."""
        return next((lane for lane in self.lanes if lane.rank == rank), None)

    def lets_wait(self, now: float) -> bool:
        """Whether its engine was seen to let requests wait: times measured on it then tell of its queue, not of it."""
        report = self._fresh_report(now)
        if report is None or report.waiting is None:
            return False
        return report.waiting >= max(_FEWEST_WAITING, (report.requests - report.waiting) / _WAITING_SHARE)

    def _fresh_report(self, now: float) -> LoadReport | None:
        return self.report if self.report is not None and now - self.report.at <= REPORT_MAX_AGE_S else None

    def _foreign(self, now: float) -> int:
        report = self._fresh_report(now)
        return 0 if report is None else report.foreign_requests

    def _waiting(self, now: float) -> int:
        report = self._fresh_report(now)
        return 0 if report is None else report.waiting or 0
