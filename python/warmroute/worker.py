"""Workers and their lanes: what is known of each, and the load that the router itself has put on it.

A lane is one KV cache of a worker: one data-parallel rank, with an event sequence of its own. Every worker has at least
one. The prefix index knows lanes only; its `worker` is a lane's key.

The table is the only owner of load. What is booked at dispatch is released exactly once, whatever becomes of the
request; `check_integrity` compares the counters with the open bookings.
"""

import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
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

# A figure scraped from a worker says nothing about now once it is this old; probes come each second by default.
REPORT_MAX_AGE_S = 5.0

DRAINING_REASON = "being drained"

# How long a worker that answers with errors is left alone: at first, doubled with each further one after that, at most.
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 30.0


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
    adapters, the folder or hub id that they were loaded from, as the engine's machine knows it.
    """

    models: Mapping[str, bool] = field(default_factory=dict)
    block_size: int | None = None
    capacity_blocks: int | None = None
    max_model_len: int | None = None
    engine: str | None = None
    roots: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Requests that the worker itself counted, and when (seconds, monotonic) it was asked."""

    requests: int
    kv_usage: float | None
    at: float
    foreign_requests: int = 0


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a worker is.

    prefill_tokens_per_s: prompt tokens computed per second when nothing else runs.
    decode_slope_s: seconds that each further running request adds to a decode step.
    load_tokens_per_s: prompt tokens per second brought back from a slower tier; absent means: recomputed.
    """

    prefill_tokens_per_s: float
    decode_slope_s: float
    load_tokens_per_s: Mapping[Tier, float] = field(default_factory=dict)


@dataclass(slots=True)
class Load:
    """The load on a worker at one moment.

    requests: in flight, ours and, where a fresh report shows more, those of others.
    decoding: of ours, those that have got their first byte.
    queued_tokens: prompt tokens still to prefill for ours that have not.
    """

    requests: int = 0
    decoding: int = 0
    queued_tokens: int = 0


@dataclass(slots=True, eq=False)
class Lane:
    """One KV cache of a worker and the load on it; `rank` is None where the worker has told of no ranks.

    `followed`: its KV events are heard. Only `WorkerTable` writes to it.
    """

    key: LaneKey
    rank: int | None = None
    followed: bool = False
    requests: int = 0
    prefilling: int = 0
    queued_tokens: int = 0


@dataclass(slots=True)
class Booking:
    """One request's share of the load on a worker and its lane, from dispatch to release."""

    worker: "Worker"
    lane: Lane
    request_id: str
    prefill_tokens: int
    prefilling: bool = True
    released: bool = False


@dataclass(slots=True, eq=False)
class Worker:
    """One registered worker. Only `WorkerTable` writes to it."""

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
    removed: bool = False
    draining: bool = False
    failures_in_a_row: int = 0
    avoid_until: float = 0.0
    id: WorkerId = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = self.spec.id
        self.name = self.spec.name or default_name(self.id)

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
        return Load(self.requests + self._foreign(now), self.requests - self.prefilling, self.queued_tokens)

    def lane_load(self, lane: Lane, now: float) -> Load:
        """The load that a request on this lane meets at `now`; others' requests are taken as spread evenly."""
        foreign = self._foreign(now) // len(self.lanes)
        return Load(lane.requests + foreign, lane.requests - lane.prefilling, lane.queued_tokens)

    def lane_of(self, rank: int | None) -> Lane | None:
        """The lane of this rank, or None."""
        return next((lane for lane in self.lanes if lane.rank == rank), None)

    def _foreign(self, now: float) -> int:
        if self.report is None or now - self.report.at > REPORT_MAX_AGE_S:
            return 0
        return self.report.foreign_requests


class WorkerTable:
    """All workers, in the order of their registration, and the load booked on each of their lanes."""

    def __init__(self) -> None:
        self._workers: dict[WorkerId, Worker] = {}
        self._next_key = 0
        self._next_lane_key = 0
        self._bookings: dict[int, Booking] = {}
        self._prefill_ends: list[tuple[float, int, Booking]] = []
        self._bookings_made = 0

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, worker_id: WorkerId) -> Worker | None:
        """The worker registered under this id, or None."""
        return self._workers.get(worker_id)

    def add(self, spec: WorkerSpec) -> Worker:
        """Register a worker with one lane, under keys never used before; the id must be free."""
        assert spec.id not in self._workers, f"worker {spec.id} is registered already"
        worker = Worker(WorkerKey(self._next_key), spec, (self._new_lane(None),))
        self._next_key += 1
        self._workers[spec.id] = worker
        return worker

    def remove(self, worker_id: WorkerId) -> Worker | None:
        """Take a worker off the table; its open bookings are still released by their owners."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            worker.removed = True
        return worker

    def set_ranks(self, worker: Worker, ranks: Sequence[int | None]) -> tuple[Lane, ...]:
        """Give the worker one lane for each rank, in this order; the lanes of ranks that stay are kept as they are.

        Bookings on a lane that goes are still released by their owners.
        """
        assert ranks, "a worker has at least one lane"
        assert len(set(ranks)) == len(ranks), f"a rank is given twice: {ranks}"
        worker.lanes = tuple(worker.lane_of(rank) or self._new_lane(rank) for rank in ranks)
        return worker.lanes

    def set_followed(self, lane: Lane, followed: bool) -> None:
        """Record whether the lane's KV events are heard."""
        lane.followed = followed

    def _new_lane(self, rank: int | None) -> Lane:
        lane = Lane(LaneKey(self._next_lane_key), rank)
        self._next_lane_key += 1
        return lane

    def learn(self, worker: Worker, facts: WorkerFacts) -> None:
        """Take over what the worker said of itself."""
        worker.facts = facts

    def set_status(self, worker: Worker, status: WorkerStatus, reason: str = "") -> bool:
        """Record whether the worker may get requests, and why not; True when that changed. Load stays untouched.

        One that drains is DRAINING where it would be READY.
        """
        if worker.draining and status is WorkerStatus.READY:
            status, reason = WorkerStatus.DRAINING, DRAINING_REASON
        changed = worker.status is not status
        worker.status, worker.status_reason = status, reason
        return changed

    def set_draining(self, worker: Worker, draining: bool) -> None:
        """Send a worker nothing more, or again. A worker that is down, or not seen yet, stays so."""
        worker.draining = draining
        if worker.status in (WorkerStatus.READY, WorkerStatus.DRAINING):
            self.set_status(worker, WorkerStatus.READY)

    def take_report(self, worker: Worker, report: LoadReport, own_requests: int) -> None:
        """Take over a scraped report. `own_requests`: the most of ours that were in flight while it was made."""
        foreign = max(0, report.requests - own_requests)
        worker.report = LoadReport(report.requests, report.kv_usage, report.at, foreign)

    def note_answer(self, worker: Worker, failed: bool, now: float) -> None:
        """A worker answered, or broke off. One that fails is avoided for a while, where others can take its requests.

        It fails at once and so never has load: without this it would look the cheapest and draw everybody's requests.
        Failures of requests that were under way when the first one came count once.
        """
        if not failed:
            worker.failures_in_a_row, worker.avoid_until = 0, 0.0
        elif now >= worker.avoid_until:
            backoff_s = min(FIRST_BACKOFF_S * 2.0**worker.failures_in_a_row, LONGEST_BACKOFF_S)
            worker.failures_in_a_row += 1
            worker.avoid_until = now + backoff_s

    def book(
        self,
        worker: Worker,
        request_id: str,
        prefill_tokens: int,
        prefill_ends_at: float | None,
        lane: Lane | None = None,
    ) -> Booking:
        """Put a request's load on a lane of a worker at dispatch; without `lane` on its first one.

        `prefill_ends_at` is the expected end of its prefill, for a request whose first byte comes with its last and
        so tells nothing of it; None for a stream, whose first byte does.
        """
        booking = Booking(worker, lane or worker.lanes[0], request_id, prefill_tokens)
        for loaded in (worker, booking.lane):
            loaded.requests += 1
            loaded.prefilling += 1
            loaded.queued_tokens += prefill_tokens
        self._bookings_made += 1
        self._bookings[id(booking)] = booking
        if prefill_ends_at is not None:
            heapq.heappush(self._prefill_ends, (prefill_ends_at, self._bookings_made, booking))
        return booking

    def advance(self, now: float) -> None:
        """End the prefills that were expected to be over by `now`."""
        while self._prefill_ends and self._prefill_ends[0][0] <= now:
            self.end_prefill(heapq.heappop(self._prefill_ends)[2])

    def end_prefill(self, booking: Booking) -> None:
        """The request has its first byte: it no longer waits, it decodes. Safe to call twice."""
        if booking.prefilling and not booking.released:
            booking.prefilling = False
            for loaded in (booking.worker, booking.lane):
                loaded.prefilling -= 1
                loaded.queued_tokens -= booking.prefill_tokens

    def release(self, booking: Booking) -> None:
        """Take the request's load off its worker. Safe to call twice."""
        if booking.released:
            return
        self.end_prefill(booking)
        booking.released = True
        booking.worker.requests -= 1
        booking.lane.requests -= 1
        del self._bookings[id(booking)]

    def check_integrity(self) -> None:
        """Assert that the counters of every worker and lane equal the sum over its open bookings."""
        for worker in self:
            _check_load(worker.id, worker, [each for each in self._bookings.values() if each.worker is worker])
            for lane in worker.lanes:
                name = f"{worker.id} rank {lane.rank}"
                _check_load(name, lane, [each for each in self._bookings.values() if each.lane is lane])


def _check_load(name: str, loaded: Worker | Lane, booked: Sequence[Booking]) -> None:
    waiting = [booking for booking in booked if booking.prefilling]
    queued = sum(booking.prefill_tokens for booking in waiting)
    assert loaded.requests == len(booked), f"{name}: {loaded.requests} requests, {len(booked)} booked"
    assert loaded.prefilling == len(waiting), f"{name}: {loaded.prefilling} prefilling, {len(waiting)} booked"
    assert loaded.queued_tokens == queued, f"{name}: {loaded.queued_tokens} tokens queued, {queued} booked"
