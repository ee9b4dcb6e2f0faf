"""The router: `route` decides, `settle` learns. No clock, no socket, no await.

On one event loop the view of the workers, the choice and the booking are one step, so no two requests decide on the
same picture. Nothing here depends on real time: it can be driven by any clock.
"""

import dataclasses
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warmroute.block import BlockHashes, Namespace, Overlap, hash_blocks
from warmroute.calibration import Calibration
from warmroute.errors import RefusalReason
from warmroute.policy import Candidate, Cost, Policy, PolicyRequest, cheapest
from warmroute.policy.least_loaded import LeastLoadedPolicy
from warmroute.prefix_index import PrefixIndex
from warmroute.worker import (
    Booking,
    Lane,
    LaneKey,
    Worker,
    WorkerFacts,
    WorkerId,
    WorkerSpec,
    WorkerStatus,
    WorkerTable,
)

_log = logging.getLogger(__name__)

DEFAULT_BLOCK_SIZE = 16
# A prediction lives until the engine's event confirms it: the time that the prefill should take, and this much more.
PREDICTION_SLACK_S = 5.0
# Where no events will come, predictions are all there is: they go when the worker's capacity is used up.
UNCONFIRMED_LIFETIME_S = 3600.0
# Predicted blocks kept for a lane whose worker does not tell its capacity: 1.6 M tokens in blocks of 16.
_UNKNOWN_CAPACITY_BLOCKS = 100_000
# Workers that a refusal names; a fleet of hundreds would fill pages.
_WORKERS_TOLD = 3


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """What the router needs to know of a request.

    token_ids: the prompt whose prefix is looked up; None when it could not be told: then load alone decides.
    prompt_tokens: all tokens to prefill, over all prompts of the body.
    """

    request_id: str
    model: str | None
    token_ids: Sequence[int] | None
    prompt_tokens: int
    stream: bool = False
    max_tokens: int | None = None
    namespace: Namespace = field(default_factory=Namespace)


@dataclass(frozen=True, slots=True)
class WorkerCost:
    """One worker's line in a decision."""

    worker: WorkerId
    cost: Cost
    overlap: Overlap
    cached_tokens: int
    requests: int
    queued_tokens: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Which worker and which of its lanes, and why: the cost of each candidate split in its terms."""

    request: RouteRequest
    worker: Worker
    lane: Lane
    policy: str
    unit: str
    cached_tokens: int
    tokens_ahead: int
    running: int
    decided_at: float
    considered: tuple[WorkerCost, ...]
    block_hashes: BlockHashes | None = field(default=None, compare=False, repr=False)
    booking: Booking | None = field(default=None, compare=False)

    @property
    def chosen(self) -> WorkerCost:
        return next(line for line in self.considered if line.worker == self.worker.id)


@dataclass(frozen=True, slots=True)
class Refusal:
    """No worker can take the request. `detail` is for a person."""

    reason: RefusalReason
    detail: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a dispatched request; times in seconds of the router's clock, None where not known.

    completed: the worker's whole answer went to the client.
    worker_failed: the worker is to blame (refused, reset, died); a client that left is nobody's fault.
    cached_tokens: as the engine reports them; None means unknown, not zero.
    """

    completed: bool
    worker_failed: bool
    ended_at: float
    first_byte_at: float | None = None
    status: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


class RouterObserver(Protocol):
    """Somebody who is told what the router did; handed in, never imported."""

    def decided(self, decision: Decision) -> None:
        """A request was given to a worker."""

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        """No worker was found for a request."""

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        """A dispatched request ended."""


class Router:
    """Decides for each request, books its load, and learns from what became of it."""

    def __init__(
        self,
        table: WorkerTable,
        index: PrefixIndex,
        policy: Policy,
        calibration: Calibration | None = None,
        observers: Sequence[RouterObserver] = (),
    ) -> None:
        self.table = table
        self.index = index
        self.policy = policy
        self.calibration = calibration or Calibration()
        self._observers = tuple(observers)
        self._confirmed_by_events: set[LaneKey] = set()
        self._dispatched = 0
        self.policy_failures = 0

    def add_worker(self, spec: WorkerSpec) -> Worker:
        """Take in a worker, with one lane that holds nothing; its id must be free."""
        worker = self.table.add(spec)
        self._admit(worker, worker.lanes)
        return worker

    def learn(self, worker: Worker, facts: WorkerFacts) -> None:
        """Take over what the worker said of itself."""
        self.table.learn(worker, facts)
        self._admit(worker, worker.lanes)

    def set_ranks(self, worker: Worker, ranks: Sequence[int | None]) -> tuple[Lane, ...]:
        """Give the worker one lane for each rank; ranks that stay keep what they hold, the others are forgotten."""
        before = worker.lanes
        lanes = self.table.set_ranks(worker, ranks)
        for lane in before:
            if lane not in lanes:
                self._forget_lane(lane)
        self._admit(worker, lanes)
        return lanes

    def expect_events(self, lane: Lane, expected: bool) -> None:
        """Say whether the lane's KV events are heard: then predictions only bridge the time until they come."""
        (self._confirmed_by_events.add if expected else self._confirmed_by_events.discard)(lane.key)

    def came_up(self, worker: Worker) -> None:
        """The worker was away. It may have been restarted, and without events nobody will say so: what its lanes
        without events were sent before proves nothing now. What events confirm is kept.
        """
        for lane in worker.lanes:
            if lane.key not in self._confirmed_by_events:
                self.index.clear(lane.key)

    def forget(self, worker: Worker) -> None:
        """Drop everything known of a worker that is gone."""
        self.table.remove(worker.id)
        self.calibration.forget(worker.key)
        for lane in worker.lanes:
            self._forget_lane(lane)

    def _admit(self, worker: Worker, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            self.index.add_worker(lane.key, worker.capacity_blocks or _UNKNOWN_CAPACITY_BLOCKS)

    def _forget_lane(self, lane: Lane) -> None:
        self.index.forget(lane.key)
        self._confirmed_by_events.discard(lane.key)

    def route(
        self, request: RouteRequest, now: float, rng: random.Random, *, tried: Collection[WorkerId] = ()
    ) -> Decision | Refusal:
        """Choose a worker and book the request's load on it. `tried`: workers that failed it already."""
        verdict = self.explain(request, now, rng, tried=tried)
        if isinstance(verdict, Refusal):
            return self._refused(request, verdict)
        decision = self._dispatch(verdict, now)
        for observer in self._observers:
            observer.decided(decision)
        return decision

    def give_up(self, request: RouteRequest, detail: str) -> Refusal:
        """The refusal of a request that enough workers have failed; counted as those of `route` are."""
        return self._refused(request, Refusal(RefusalReason.WORKERS_EXHAUSTED, detail))

    def _refused(self, request: RouteRequest, refusal: Refusal) -> Refusal:
        for observer in self._observers:
            observer.refused(request, refusal)
        return refusal

    def explain(
        self, request: RouteRequest, now: float, rng: random.Random, *, tried: Collection[WorkerId] = ()
    ) -> Decision | Refusal:
        """As `route`, without booking anything: what would be decided now."""
        self.table.advance(now)
        workers = eligible(self.table, request.model, tried, now)
        if isinstance(workers, Refusal):
            return workers
        hashes = _block_hashes(request, workers)
        candidates = self._candidates(request, workers, hashes, now)
        asked = PolicyRequest(
            request.prompt_tokens, self.calibration.output_tokens(request.max_tokens), self._dispatched
        )
        policy, costs = self._costs(asked, candidates, rng)
        chosen = candidates[cheapest(costs, rng)]
        return Decision(
            request=request,
            worker=chosen.worker,
            lane=chosen.lane,
            policy=policy.name,
            unit=policy.unit,
            cached_tokens=chosen.cached_tokens,
            tokens_ahead=chosen.load.queued_tokens + chosen.uncached_tokens,
            running=chosen.load.requests,
            decided_at=now,
            considered=tuple(map(_line, candidates, costs)),
            block_hashes=hashes.get(chosen.block_size),
        )

    def first_byte(self, decision: Decision, now: float, *, refused: bool = False) -> None:
        """The answer to a dispatched request began at `now`: its prefill is over.

        `refused`: the worker answered with an error, so it computed nothing and nothing is learned from its speed.
        """
        assert decision.booking is not None, "only a dispatched decision has a first byte"
        was_waiting = decision.booking.prefilling
        self.table.end_prefill(decision.booking)
        told = decision.request.stream and decision.request.token_ids is not None
        if was_waiting and told and not refused and decision.tokens_ahead > 0:
            waited = now - decision.decided_at
            self.calibration.observe_prefill(decision.worker.key, decision.tokens_ahead, waited)

    def settle(self, decision: Decision, outcome: Outcome) -> None:
        """A dispatched request ended: release its load, learn from it, tell the observers. Once per decision."""
        assert decision.booking is not None, "only a dispatched decision is settled"
        assert not decision.booking.released, "a decision is settled once"
        self.table.release(decision.booking)
        if outcome.worker_failed or outcome.status is not None:
            self.table.note_answer(decision.worker, _is_failure(outcome), outcome.ended_at)
        if outcome.completed and outcome.output_tokens:
            self._learn(decision, outcome, outcome.output_tokens)
        for observer in self._observers:
            observer.settled(decision, outcome)

    def _learn(self, decision: Decision, outcome: Outcome, output_tokens: int) -> None:
        self.calibration.observe_output(output_tokens)
        if decision.request.stream and outcome.first_byte_at is not None and output_tokens > 1:
            seconds = outcome.ended_at - outcome.first_byte_at
            self.calibration.observe_decode(decision.worker.key, decision.running, output_tokens, seconds)

    def _candidates(
        self, request: RouteRequest, workers: Sequence[Worker], hashes: Mapping[int, BlockHashes], now: float
    ) -> list[Candidate]:
        overlaps = {block_size: self.index.match(found, now) for block_size, found in hashes.items()}
        return [
            Candidate(
                worker,
                worker.lanes[0],
                worker.load(now),
                self.calibration.rates(worker.key),
                overlaps.get(_block_size(worker), {}).get(worker.lanes[0].key, _NOTHING),
                _block_size(worker),
                request.prompt_tokens,
            )
            for worker in workers
        ]

    def _costs(
        self, asked: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random
    ) -> tuple[Policy, list[Cost]]:
        try:
            return self.policy, self.policy.costs(asked, candidates, rng)
        except Exception:
            # A fault in a policy must not cost the client its answer: load alone decides, and the fault is loud.
            self.policy_failures += 1
            if self.policy_failures == 1:
                _log.exception("policy %s failed; requests go to the least loaded worker", self.policy.name)
            fallback = LeastLoadedPolicy()
            return fallback, fallback.costs(asked, candidates, rng)

    def _dispatch(self, decision: Decision, now: float) -> Decision:
        self._dispatched += 1
        request, worker = decision.request, decision.worker
        uncached = max(0, request.prompt_tokens - decision.cached_tokens)
        rate = self.calibration.rates(worker.key).prefill_tokens_per_s
        prefill_ends_at = now + decision.tokens_ahead / rate
        ends_at = None if request.stream else prefill_ends_at
        booking = self.table.book(worker, request.request_id, uncached, ends_at, decision.lane)
        self._predict(decision, prefill_ends_at)
        return dataclasses.replace(decision, booking=booking)

    def _predict(self, decision: Decision, prefill_ends_at: float) -> None:
        """Enter what the worker will hold once it has prefilled this, so that a twin is not sent elsewhere."""
        if not decision.block_hashes:
            return
        confirmed = decision.lane.key in self._confirmed_by_events
        lifetime = PREDICTION_SLACK_S if confirmed else UNCONFIRMED_LIFETIME_S
        self.index.predict(decision.lane.key, decision.block_hashes, prefill_ends_at + lifetime)


_NOTHING = Overlap()


def eligible(table: WorkerTable, model: str | None, tried: Collection[WorkerId], now: float) -> list[Worker] | Refusal:
    """The workers that may get a request for `model`, or why there is none. A body without a model fits any worker.

    Workers that have just failed are left out, unless there is nobody else: never are all of them closed.
    """
    serving = [worker for worker in table if model is None or model in worker.models]
    ready = [worker for worker in serving if worker.status is WorkerStatus.READY]
    untried = [worker for worker in ready if worker.id not in tried]
    if untried:
        return [worker for worker in untried if worker.avoid_until <= now] or untried
    if ready:
        return Refusal(RefusalReason.WORKERS_EXHAUSTED, f"all {len(ready)} ready workers failed this request")
    if not serving and _all_asked(table):
        known = sorted({name for worker in table for name in worker.models})
        return Refusal(RefusalReason.UNKNOWN_MODEL, f"no worker serves model '{model}'; served: {', '.join(known)}")
    return Refusal(RefusalReason.NO_WORKER_READY, _why_none_ready(model, serving or list(table)))


def _is_failure(outcome: Outcome) -> bool:
    """Whether the worker is broken or too busy; other 4xx are the client's doing."""
    return outcome.worker_failed or (outcome.status is not None and (outcome.status == 429 or outcome.status >= 500))


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


def _block_hashes(request: RouteRequest, workers: Sequence[Worker]) -> dict[int, BlockHashes]:
    """The prompt's hashes for each block size among the workers; none where its tokens are not known."""
    if request.token_ids is None:
        return {}
    namespace = request.namespace
    if request.model is not None and any(worker.models.get(request.model, False) for worker in workers):
        namespace = dataclasses.replace(namespace, adapter=request.model)
    return {size: hash_blocks(request.token_ids, size, namespace) for size in set(map(_block_size, workers))}


def _block_size(worker: Worker) -> int:
    return worker.block_size or DEFAULT_BLOCK_SIZE


def _line(candidate: Candidate, cost: Cost) -> WorkerCost:
    return WorkerCost(
        candidate.worker.id,
        cost,
        candidate.overlap,
        candidate.cached_tokens,
        candidate.load.requests,
        candidate.load.queued_tokens,
    )
