"""All workers, and the load that the router itself has put on each.

The table is the only owner of load. What is booked at dispatch is released exactly once, whatever becomes of the
request; `check_integrity` compares the counters with the open bookings.
"""

import heapq
from collections.abc import Callable, Container, Iterator, Sequence

from warmroute.worker.circuit import Sign
from warmroute.worker.spec import (
    LARGEST_COUNT,
    LaneKey,
    LoadReport,
    WorkerFacts,
    WorkerId,
    WorkerKey,
    WorkerSpec,
    WorkerStatus,
)
from warmroute.worker.worker import Booking, Lane, Worker

DRAINING_REASON = "being drained"


class WorkerTable:
    """All workers, in the order of their registration, and the load booked on each of their lanes."""

    def __init__(
        self,
        *,
        slow_start_s: float = 0.0,
        limits: bool = False,
        max_requests: int | None = None,
        show_addresses: bool = False,
    ) -> None:
        """`slow_start_s`: how long the share of a worker that came up grows; `limits`: whether workers can be full, at
        `max_requests` where that is given; `show_addresses`: workers are called by their URLs, not by their names.
        """
        self._workers: dict[WorkerId, Worker] = {}
        self._next_key = 0
        self._next_lane_key = 0
        self._bookings: dict[int, Booking] = {}
        self._prefill_ends: list[tuple[float, int, Booking]] = []
        self._bookings_made = 0
        self._slow_start_s = slow_start_s
        self._limits, self._max_requests = limits, max_requests
        self._show_addresses = show_addresses
        self._serving: dict[str | None, list[Worker]] = {}
        self._ready: dict[str | None, list[Worker]] = {}
        self._of_lane: dict[LaneKey, Worker] = {}
        self._by_requests: dict[int, dict[Worker, None]] = {}
        self.set_aside: set[Worker] = set()
        """Workers with an open circuit, at rest because they were busy, or warming up; left when that is seen over."""
        self.saturated: set[Worker] = set()
        """Workers that have as many requests as they run at once."""
        self.has_room: Callable[[], None] | None = None
        """Called when a saturated worker has room again."""
        self.last_resorts = 0
        """Requests sent to a worker that was set aside, because no other could take them."""

    def reconfigure(self, *, slow_start_s: float, limits: bool, max_requests: int | None) -> None:
        """Take over what these mean at the beginning, for all workers and from now on."""
        self._slow_start_s = slow_start_s
        self._limits, self._max_requests = limits, max_requests
        for worker in self:
            self._limit(worker)

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
        if self._show_addresses:
            worker.shown = worker.id
        self._limit(worker)
        self._next_key += 1
        self._workers[spec.id] = worker
        self._of_lane[worker.lanes[0].key] = worker
        self._by_requests.setdefault(0, {})[worker] = None
        self._changed()
        return worker

    def remove(self, worker_id: WorkerId) -> Worker | None:
        """Take a worker off the table; its open bookings are still released by their owners."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            worker.removed = True
            self._leave_its_count(worker)
            for lane in worker.lanes:
                del self._of_lane[lane.key]
            self.set_aside.discard(worker)
            self.saturated.discard(worker)
            self._changed()
        return worker

    def serving(self, model: str | None) -> Sequence[Worker]:
        """The workers that serve a model, or any. Found once, until a worker comes, goes or changes its models."""
        found = self._serving.get(model)
        if found is None:
            found = [worker for worker in self if model is None or model in worker.models]
            if found:  # what nobody serves is a client's word, of which there is no end
                self._serving[model] = found
        return found

    def ready(self, model: str | None) -> Sequence[Worker]:
        """Those of `serving` that may get requests; found once, until a worker changes its status as well."""
        found = self._ready.get(model)
        if found is None:
            found = [worker for worker in self.serving(model) if worker.status is WorkerStatus.READY]
            if found:
                self._ready[model] = found
        return found

    def _changed(self) -> None:
        self._serving.clear()
        self._ready.clear()

    def set_ranks(self, worker: Worker, ranks: Sequence[int | None]) -> tuple[Lane, ...]:
        """Give the worker one lane for each rank, in this order; the lanes of ranks that stay are kept as they are.

        Bookings on a lane that goes are still released by their owners.
        """
        assert ranks, "a worker has at least one lane"
        assert len(set(ranks)) == len(ranks), f"a rank is given twice: {ranks}"
        before = worker.lanes
        worker.lanes = tuple(worker.lane_of(rank) or self._new_lane(rank) for rank in ranks)
        for lane in before:
            del self._of_lane[lane.key]
        self._of_lane |= {lane.key: worker for lane in worker.lanes}
        self._limit(worker)
        return worker.lanes

    def worker_of(self, lane: LaneKey) -> Worker | None:
        """The worker that has this lane, or None."""
        return self._of_lane.get(lane)

    def lightest(self, most: int, among: Container[Worker]) -> list[Worker]:
        """Of the workers in `among` at most so many, those with the fewest of our requests; of equals those that have
        had as many for the longest time.
        """
        found: list[Worker] = []
        for requests in sorted(self._by_requests):
            for worker in self._by_requests[requests]:
                if worker in among:
                    found.append(worker)
                    if len(found) >= most:
                        return found
        return found

    def _leave_its_count(self, worker: Worker) -> None:
        alike = self._by_requests[worker.requests]
        del alike[worker]
        if not alike:
            del self._by_requests[worker.requests]

    def _count(self, worker: Worker, by: int) -> None:
        """Change the number of a worker's requests."""
        if not worker.removed:
            self._leave_its_count(worker)
        worker.requests += by
        if not worker.removed:
            self._by_requests.setdefault(worker.requests, {})[worker] = None

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
        self._limit(worker)
        self._changed()

    def set_status(
        self, worker: Worker, status: WorkerStatus, reason: str = "", came_up_at: float | None = None
    ) -> bool:
        """Record whether the worker may get requests, and why not; True when that changed. Load stays untouched.

        One that drains is DRAINING where it would be READY. `came_up_at`: the time at which it turned out to be well
        after it had not been, from which on its share grows.
        """
        if worker.draining and status is WorkerStatus.READY:
            status, reason = WorkerStatus.DRAINING, DRAINING_REASON
        changed = worker.status is not status
        worker.status, worker.status_reason = status, reason
        if changed:
            self._ready.clear()
            if came_up_at is not None and self._slow_start_s > 0.0:
                worker.warming_since = came_up_at
                self.set_aside.add(worker)
        return changed

    def set_draining(self, worker: Worker, draining: bool) -> None:
        """Send a worker nothing more, or again. A worker that is down, or not seen yet, stays so."""
        worker.draining = draining
        if worker.status in (WorkerStatus.READY, WorkerStatus.DRAINING):
            self.set_status(worker, WorkerStatus.READY)

    def take_report(self, worker: Worker, report: LoadReport, own_requests: int) -> None:
        """Take over a scraped report. `own_requests`: the most of ours that were in flight while it was made."""
        foreign = max(0, report.requests - own_requests)
        worker.report = LoadReport(report.requests, report.kv_usage, report.at, foreign, report.waiting)
        self._limit(worker)

    def _limit(self, worker: Worker) -> None:
        """Sets from how many requests in flight on the worker is full: as a person or its engine says.

        No limit is learned from an engine that queues: it queues for memory or for the next step's tokens as well, at
        any number of requests, and what is kept from it goes to workers that lack its prefixes. On the simulated
        churn of prefixes such a limit cost thirty times the time to the first token.
        """
        given = worker.spec.max_requests or self._max_requests
        told, ranks = worker.facts.max_running_requests, len(worker.lanes)
        if not self._limits:
            worker.full_at = LARGEST_COUNT
        elif given is not None:
            worker.full_at = given
        else:
            worker.full_at = LARGEST_COUNT if told is None else _with_stock(told * ranks, ranks)
        self._weigh(worker)

    def _weigh(self, worker: Worker) -> None:
        """Compares the worker's requests, as of its last report, with its limit."""
        foreign = 0 if worker.report is None else worker.report.foreign_requests
        if worker.requests + foreign >= worker.full_at and not worker.removed:
            self.saturated.add(worker)
        elif worker in self.saturated:
            self.saturated.discard(worker)
            if self.has_room is not None:
                self.has_room()

    def note_sent(self, worker: Worker, now: float) -> None:
        """A request goes to a worker that is set aside: as the try of its circuit, or as a last resort."""
        self.last_resorts += not worker.circuit.allows(now)
        worker.circuit.sent(now)

    def note_end(
        self, worker: Worker, sign: Sign, sent_at: float, now: float, retry_after_s: float | None = None, u: float = 0.5
    ) -> None:
        """A request that was sent at `sent_at` has ended; see `Circuit.ended`.

        A worker that fails at once never has load: without this it would look the cheapest and draw everybody's.
        """
        worker.circuit.ended(sign, sent_at, now, retry_after_s, u)
        if not worker.removed and not worker.circuit.at_rest(now):
            self.set_aside.add(worker)

    def well(self, workers: Sequence[Worker], now: float) -> Sequence[Worker]:
        """Those of `workers` that are neither broken nor busy at `now`; where there is none, the least bad ones."""
        if not self.set_aside:
            return workers
        allowed = [each for each in workers if each not in self.set_aside or self._allows(each, now)]
        return allowed or [worker for worker in workers if not worker.circuit.is_open] or workers

    def with_room(self, workers: Sequence[Worker], now: float) -> Sequence[Worker]:
        """Those of `workers` that are not saturated at `now`."""
        if not self.saturated:
            return workers
        return [worker for worker in workers if worker not in self.saturated or not worker.is_full(now)]

    def warm(self, workers: Sequence[Worker], now: float) -> Sequence[Worker]:
        """Those of `workers` that may have one request more while they warm up, and those that do not.

        A worker that warms up may have a growing part of what the others have, and one more so that it is never idle;
        without others it may have everything.
        """
        others = [worker for worker in workers if worker.warming_since is None] if self.set_aside else workers
        if not others or len(others) == len(workers):
            return workers
        usual = sum(worker.requests for worker in others) / len(others)
        return [worker for worker in workers if worker.requests < self._share(worker, usual, now)]

    def _allows(self, worker: Worker, now: float) -> bool:
        since = worker.warming_since
        if since is not None and now - since >= self._slow_start_s:
            worker.warming_since = since = None
        if since is None and worker.circuit.at_rest(now):
            self.set_aside.discard(worker)
            return True
        return worker.circuit.allows(now)

    def _share(self, worker: Worker, usual: float, now: float) -> float:
        if worker.warming_since is None:
            return float(LARGEST_COUNT)
        return 1.0 + usual * (now - worker.warming_since) / self._slow_start_s

    def book(
        self,
        worker: Worker,
        request_id: str,
        prefill_tokens: int,
        prefill_ends_at: float | None,
        lane: Lane | None = None,
        prefill_attended: int = 0,
    ) -> Booking:
        """Put a request's load on a lane of a worker at dispatch; without `lane` on its first one.

        `prefill_ends_at` is the expected end of its prefill, for a request whose first byte comes with its last and
        so tells nothing of it; None for a stream, whose first byte does.
        """
        booking = Booking(worker, lane or worker.lanes[0], request_id, prefill_tokens, prefill_attended)
        self._count(worker, 1)
        booking.lane.requests += 1
        for loaded in (worker, booking.lane):
            loaded.prefilling += 1
            loaded.queued_tokens += prefill_tokens
            loaded.queued_attended += prefill_attended
        if worker.full_at < LARGEST_COUNT:
            self._weigh(worker)
        self._bookings_made += 1
        self._bookings[id(booking)] = booking
        if prefill_ends_at is not None:
            heapq.heappush(self._prefill_ends, (prefill_ends_at, self._bookings_made, booking))
        return booking

    def advance(self, now: float) -> None:
        """End the prefills that were expected to be over by `now`."""
        while self._prefill_ends and self._prefill_ends[0][0] <= now:
            at, _, booking = heapq.heappop(self._prefill_ends)
            self.end_prefill(booking, at)

    def end_prefill(self, booking: Booking, now: float) -> None:
        """The request has its first byte: it no longer waits, it decodes. Safe to call twice."""
        if booking.prefilling and not booking.released:
            booking.since = booking.lane.count_until(now)
            booking.prefilling = False
            booking.lane.prefilled_tokens += booking.prefill_tokens
            booking.lane.prefilled_attended += booking.prefill_attended
            booking.prefilled_since = booking.lane.prefilled
            for loaded in (booking.worker, booking.lane):
                loaded.prefilling -= 1
                loaded.queued_tokens -= booking.prefill_tokens
                loaded.queued_attended -= booking.prefill_attended

    def release(self, booking: Booking, now: float) -> None:
        """Take the request's load off its worker at `now`. Safe to call twice."""
        if booking.released:
            return
        self.end_prefill(booking, now)
        booking.released = True
        booking.until = booking.lane.count_until(now)
        booking.prefilled_until = booking.lane.prefilled
        self._count(booking.worker, -1)
        booking.lane.requests -= 1
        if self.saturated:
            self._weigh(booking.worker)
        del self._bookings[id(booking)]

    def check_integrity(self) -> None:
        """Assert that the counters of every worker and lane equal the sum over its open bookings."""
        for worker in self:
            _check_load(worker.id, worker, [each for each in self._bookings.values() if each.worker is worker])
            for lane in worker.lanes:
                name = f"{worker.id} rank {lane.rank}"
                _check_load(name, lane, [each for each in self._bookings.values() if each.lane is lane])
            assert worker.requests < worker.full_at or worker in self.saturated, f"{worker.id} is full, unnoticed"
            assert worker in self._by_requests[worker.requests], f"{worker.id} is counted under another number"
            assert all(self._of_lane[lane.key] is worker for lane in worker.lanes), f"{worker.id} lost a lane"
        assert sum(map(len, self._by_requests.values())) == len(self), "a worker is counted twice, or one that is gone"


def _with_stock(runs: int, ranks: int) -> int:
    """From how many requests on an engine that runs `runs` at once is full.

    A few wait in the engine itself, so that a place that becomes free is taken in the very next step, not after a
    round trip to the router: two, one for each rank, or one for each 32 that run. Of 256 that answer 256 tokens each,
    one ends in each step of some 30 ms; the round trip takes a tenth of that.
    """
    return runs + max(2, ranks, runs // 32)


def _check_load(name: str, loaded: Worker | Lane, booked: Sequence[Booking]) -> None:
    waiting = [booking for booking in booked if booking.prefilling]
    queued = sum(booking.prefill_tokens for booking in waiting)
    attended = sum(booking.prefill_attended for booking in waiting)
    assert loaded.requests == len(booked), f"{name}: {loaded.requests} requests, {len(booked)} booked"
    assert loaded.prefilling == len(waiting), f"{name}: {loaded.prefilling} prefilling, {len(waiting)} booked"
    assert loaded.queued_tokens == queued, f"{name}: {loaded.queued_tokens} tokens queued, {queued} booked"
    assert loaded.queued_attended == attended, f"{name}: {loaded.queued_attended} attended, {attended} booked"
