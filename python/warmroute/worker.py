"""Workers: what is known of each, and the load that the router itself has put on it.

The table is the only owner of load. What is booked at dispatch is released exactly once, whatever becomes of the
request; `check_integrity` compares the counters with the open bookings.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from warmroute.block import Tier

WorkerId = NewType("WorkerId", str)
"""A worker's base URL without a trailing slash; stable over its restarts."""

WorkerKey = NewType("WorkerKey", int)
"""One registration of a worker; never used again, so a reused address starts with nothing."""

# Above it no block size and no number of blocks is meant: what is beyond is a mistake, and overflows the index.
LARGEST_COUNT = 2**31 - 1

# A figure scraped from a worker says nothing about now once it is this old; probes come each second by default.
REPORT_MAX_AGE_S = 5.0

# How long a worker that answers with errors is left alone: at first, doubled with each further one after that, at most.
FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 30.0


class WorkerStatus(StrEnum):
    """Whether requests may be sent to a worker."""

    STARTING = "starting"
    READY = "ready"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a person says of a worker; None means: ask the worker."""

    url: str
    model: str | None = None
    block_size: int | None = None
    capacity_blocks: int | None = None
    kv_events: str | None = None
    kv_replay: str | None = None
    kv_topic: str = ""

    @property
    def id(self) -> WorkerId:
        return WorkerId(self.url.rstrip("/"))


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What is known of a worker's engine.

    `models` maps each name that the worker answers to, to whether it is an adapter (and so keeps its own prefixes).
    `block_size` is in tokens, `capacity_blocks` in blocks of that size.
    """

    models: Mapping[str, bool] = field(default_factory=dict)
    block_size: int | None = None
    capacity_blocks: int | None = None
    max_model_len: int | None = None


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


@dataclass(frozen=True, slots=True)
class Load:
    """The load on a worker at one moment.

    requests: in flight, ours and, where a fresh report shows more, those of others.
    decoding: of ours, those that have got their first byte.
    queued_tokens: prompt tokens still to prefill for ours that have not.
    """

    requests: int = 0
    decoding: int = 0
    queued_tokens: int = 0


@dataclass(slots=True)
class Booking:
    """One request's share of a worker's load, from dispatch to release."""

    worker: "Worker"
    request_id: str
    prefill_tokens: int
    prefilling: bool = True
    released: bool = False


@dataclass(slots=True, eq=False)
class Worker:
    """One registered worker. Only `WorkerTable` writes to it."""

    key: WorkerKey
    spec: WorkerSpec
    facts: WorkerFacts = field(default_factory=WorkerFacts)
    status: WorkerStatus = WorkerStatus.STARTING
    status_reason: str = "not asked yet"
    report: LoadReport | None = None
    requests: int = 0
    prefilling: int = 0
    queued_tokens: int = 0
    removed: bool = False
    failures_in_a_row: int = 0
    avoid_until: float = 0.0

    @property
    def id(self) -> WorkerId:
        return self.spec.id

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
        """The load to decide with at `now`; an old report is left out."""
        foreign = 0
        if self.report is not None and now - self.report.at <= REPORT_MAX_AGE_S:
            foreign = self.report.foreign_requests
        return Load(self.requests + foreign, self.requests - self.prefilling, self.queued_tokens)


class WorkerTable:
    """All workers, in the order of their registration, and the load booked on each."""

    def __init__(self) -> None:
        self._workers: dict[WorkerId, Worker] = {}
        self._next_key = 0
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
        """Register a worker under a key never used before; the id must be free."""
        assert spec.id not in self._workers, f"worker {spec.id} is registered already"
        worker = Worker(WorkerKey(self._next_key), spec)
        self._next_key += 1
        self._workers[spec.id] = worker
        return worker

    def remove(self, worker_id: WorkerId) -> Worker | None:
        """Take a worker off the table; its open bookings are still released by their owners."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            worker.removed = True
        return worker

    def learn(self, worker: Worker, facts: WorkerFacts) -> None:
        """Take over what the worker said of itself."""
        worker.facts = facts

    def set_status(self, worker: Worker, status: WorkerStatus, reason: str = "") -> bool:
        """Record whether the worker may get requests, and why not; True when that changed. Load stays untouched."""
        changed = worker.status is not status
        worker.status, worker.status_reason = status, reason
        return changed

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

    def book(self, worker: Worker, request_id: str, prefill_tokens: int, prefill_ends_at: float | None) -> Booking:
        """Put a request's load on a worker at dispatch.

        `prefill_ends_at` is the expected end of its prefill, for a request whose first byte comes with its last and
        so tells nothing of it; None for a stream, whose first byte does.
        """
        booking = Booking(worker, request_id, prefill_tokens)
        worker.requests += 1
        worker.prefilling += 1
        worker.queued_tokens += prefill_tokens
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
            booking.worker.prefilling -= 1
            booking.worker.queued_tokens -= booking.prefill_tokens

    def release(self, booking: Booking) -> None:
        """Take the request's load off its worker. Safe to call twice."""
        if booking.released:
            return
        self.end_prefill(booking)
        booking.released = True
        booking.worker.requests -= 1
        del self._bookings[id(booking)]

    def check_integrity(self) -> None:
        """Assert that every worker's counters equal the sum over its open bookings."""
        for worker in self:
            open_here = [booking for booking in self._bookings.values() if booking.worker is worker]
            waiting = [booking for booking in open_here if booking.prefilling]
            assert worker.requests == len(open_here), (
                f"{worker.id}: {worker.requests} requests, {len(open_here)} booked"
            )
            assert worker.prefilling == len(waiting), (
                f"{worker.id}: {worker.prefilling} prefilling, {len(waiting)} booked"
            )
            queued = sum(booking.prefill_tokens for booking in waiting)
            assert worker.queued_tokens == queued, f"{worker.id}: {worker.queued_tokens} tokens queued, {queued} booked"
