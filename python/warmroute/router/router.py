"""The router: `route` decides, `settle` learns. No clock, no socket, no await.

On one event loop the view of the workers, the choice and the booking are one step, so no two requests decide on the
same picture. Nothing here depends on real time: it can be driven by any clock.
"""

import logging
import math
import random
from collections.abc import Collection, Sequence

from warmroute.block import BlockHashes
from warmroute.cache_model import CacheModel
from warmroute.calibration import Calibration
from warmroute.errors import RefusalReason, UnusableCosts
from warmroute.openai_api import Match
from warmroute.policy import Candidate, Cost, Policy, PolicyRequest, attended, cheapest
from warmroute.policy.least_loaded import LeastLoadedPolicy
from warmroute.prefix_index import PrefixIndex
from warmroute.router.block_sizes import BlockSizes
from warmroute.router.decision import (
    Decision,
    Foundation,
    Outcome,
    Refusal,
    RouteRequest,
    RouterObserver,
)
from warmroute.router.eligibility import eligible
from warmroute.router.lookup import Holding, Lookup, Shorten
from warmroute.router.sessions import Sessions
from warmroute.router.shortlist import MOST_CONSIDERED, considers_all, shortlist
from warmroute.worker import Lane, LaneKey, Worker, WorkerFacts, WorkerId, WorkerSpec, WorkerTable

_log = logging.getLogger(__name__)

# A prediction lives until the engine's event confirms it: the time that the prefill should take, and this much more.
PREDICTION_SLACK_S = 5.0
# Predicted blocks kept for a lane whose worker does not tell its capacity: 1.6 M tokens in blocks of 16.
_UNKNOWN_CAPACITY_BLOCKS = 100_000
# Confirmed blocks kept per lane: a bound for removals that were lost, or that are never told, as by most stores behind
# the GPU. Above the capacity, as an engine may announce smaller blocks than it counts in.
_SLACK = 8
_MOST_STORE_BLOCKS = 4_000_000


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
        self._observers = list(observers)
        self.block_sizes = BlockSizes(index)
        self.sessions = Sessions(index)
        self._capacities: dict[LaneKey, int] = {}
        self._models: dict[LaneKey, CacheModel] = {}  # of the lanes that are not followed
        self._dispatched = 0
        self.policy_failures = 0

    def observe(self, observer: RouterObserver) -> None:
        """Tell one more observer of what happens from now on."""
        self._observers.append(observer)

    def add_worker(self, spec: WorkerSpec) -> Worker:
        """Take in a worker, with one lane that holds nothing; its id must be free."""
        worker = self.table.add(spec)
        self._admit(worker)
        return worker

    def learn(self, worker: Worker, facts: WorkerFacts) -> None:
        """Take over what the worker said of itself."""
        self.table.learn(worker, facts)
        self._admit(worker)

    def set_ranks(self, worker: Worker, ranks: Sequence[int | None]) -> tuple[Lane, ...]:
        """Give the worker one lane for each rank; ranks that stay keep what they hold, the others are forgotten."""
        before = worker.lanes
        lanes = self.table.set_ranks(worker, ranks)
        for lane in before:
            if lane not in lanes:
                self._forget_lane(lane)
        self._admit(worker)
        return lanes

    def expect_events(self, lane: Lane, expected: bool) -> None:
        """Say whether the lane's KV events are heard: then predictions only bridge the time until they come.

        Without them (as at first) they never end, and what the lane holds is guessed from what it was sent.
        """
        self.table.set_followed(lane, expected)
        if not expected:
            self._models.setdefault(lane.key, CacheModel(self.index, lane.key))
        elif self._models.pop(lane.key, None) is not None:
            # Guesses do not end by themselves, and no event will end one that is wrong.
            self._drop_predictions(lane)

    def came_up(self, worker: Worker) -> None:
        """The worker was away. It may have been restarted, and without events nobody will say so: what its lanes
        without events were sent before proves nothing now. What events confirmed is theirs to take back.
        """
        for lane in worker.lanes:
            self.sessions.forget_lane(lane.key)
            if lane.key in self._models:
                self._models[lane.key] = CacheModel(self.index, lane.key)
                self._drop_predictions(lane)

    def _drop_predictions(self, lane: Lane) -> None:
        self.index.add_worker(lane.key, 0)
        self.index.add_worker(lane.key, self._capacities[lane.key])

    def forget(self, worker: Worker) -> None:
        """Drop everything known of a worker that is gone."""
        self.table.remove(worker.id)
        self.calibration.forget(worker.key)
        for lane in worker.lanes:
            self._forget_lane(lane)

    def _admit(self, worker: Worker) -> None:
        capacity = worker.capacity_blocks or _UNKNOWN_CAPACITY_BLOCKS
        for lane in worker.lanes:
            self.index.add_worker(lane.key, capacity)
            self._capacities[lane.key] = capacity
            on_device = _SLACK * capacity if worker.capacity_blocks else _MOST_STORE_BLOCKS
            self.index.set_limits(lane.key, on_device, *[_MOST_STORE_BLOCKS] * 3)
            if not lane.followed:
                self._models.setdefault(lane.key, CacheModel(self.index, lane.key))

    def _forget_lane(self, lane: Lane) -> None:
        self.index.forget(lane.key)
        self.block_sizes.forget(lane)
        self.sessions.forget_lane(lane.key)
        self._models.pop(lane.key, None)
        self._capacities.pop(lane.key, None)

    def route(
        self, request: RouteRequest, now: float, rng: random.Random, *, tried: Collection[WorkerId] = ()
    ) -> Decision | Refusal:
        """Choose a worker and book the request's load on it. `tried`: workers that failed it already."""
        verdict = self.explain(request, now, rng, tried=tried)
        if isinstance(verdict, Refusal):
            return self.refuse(request, verdict)
        self._dispatch(verdict, now)
        for observer in self._observers:
            observer.decided(verdict)
        return verdict

    def give_up(self, request: RouteRequest, detail: str) -> Refusal:
        """The refusal of a request that enough workers have failed; counted as those of `route` are."""
        return self.refuse(request, Refusal(RefusalReason.WORKERS_EXHAUSTED, detail))

    def refuse(self, request: RouteRequest, refusal: Refusal) -> Refusal:
        """Refuse a request for a reason that lies outside of the router; counted as those of `route` are."""
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
        self.block_sizes.refresh(self.table, now)
        self.sessions.refresh(now)
        held = self.sessions.held(request)
        shorten = self._shorten(workers, now)
        lookup = Lookup(request, workers, self.index, self.block_sizes, self._models, now, held, shorten)
        holdings = [lookup.best_lane(worker, rng) for worker in lookup.workers]
        candidates = [self._candidate(*each, request, now) for each in zip(lookup.workers, holdings, strict=True)]
        asked = self._asked(request, now)
        policy, costs, position = self._chosen(asked, candidates, rng)
        chosen, holding = candidates[position], holdings[position]
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
            position=position,
            candidates=candidates,
            costs=costs,
            asked=asked,
            decided_by=policy,
            eligible=len(workers),
            foundation=self._foundation(chosen, holding, lookup),
            session_tokens=[each.session_tokens for each in holdings] if held else (),
            attended_ahead=chosen.load.queued_attended + chosen.attended_tokens,
        )

    def first_byte(self, decision: Decision, now: float, *, refused: bool = False) -> None:
        """The answer to a dispatched request began at `now`: its prefill is over.

        `refused`: the worker answered with an error, so it computed nothing and nothing is learned from its speed.
        """
        assert decision.booking is not None, "only a dispatched decision has a first byte"
        was_waiting = decision.booking.prefilling
        self.table.end_prefill(decision.booking, now)
        told = decision.request.stream and decision.request.match is Match.EXACT
        if not refused:
            decision.worker.circuit.began(decision.decided_at, now)
        tells = not (refused or decision.worker.removed or decision.worker.lets_wait(now))
        if was_waiting and told and tells and decision.tokens_ahead > 0:
            waited = now - decision.decided_at
            self.calibration.observe_prefill(
                decision.worker.key, decision.tokens_ahead, decision.attended_ahead, waited
            )

    def settle(self, decision: Decision, outcome: Outcome, rng: random.Random | None = None) -> None:
        """A dispatched request ended: release its load, learn from it, tell the observers. Once per decision.

        `rng` spreads the rests of workers that fail together.
        """
        assert decision.booking is not None, "only a dispatched decision is settled"
        assert not decision.booking.released, "a decision is settled once"
        self.table.release(decision.booking, outcome.ended_at)
        self._note_end(decision, outcome, rng)
        if outcome.completed and outcome.output_tokens:
            self._learn(decision, outcome, outcome.output_tokens)
        self._correct(decision, outcome)
        self.sessions.answered(decision, outcome)
        for observer in self._observers:
            observer.settled(decision, outcome)

    def _note_end(self, decision: Decision, outcome: Outcome, rng: random.Random | None) -> None:
        u = 0.5 if rng is None else rng.random()
        sent_at, ended_at = decision.decided_at, outcome.ended_at
        self.table.note_end(decision.worker, outcome.sign, sent_at, ended_at, outcome.retry_after_s, u)

    def _learn(self, decision: Decision, outcome: Outcome, output_tokens: int) -> None:
        self.calibration.observe_output(output_tokens)
        began_at = outcome.first_byte_at if decision.request.stream else None
        seconds = 0.0 if began_at is None else outcome.ended_at - began_at
        worker = decision.worker
        # Of a worker that was forgotten nobody would forget this again.
        if seconds > 0.0 and output_tokens > 1 and not (worker.removed or worker.lets_wait(outcome.ended_at)):
            decoding, computed, attended_to = _beside(decision, seconds)
            self.calibration.observe_decode(worker.key, decoding, computed, attended_to, output_tokens, seconds)

    def _asked(self, request: RouteRequest, now: float) -> PolicyRequest:
        output_tokens = self.calibration.output_tokens(request.max_tokens)
        return PolicyRequest(
            request.prompt_tokens, output_tokens, self._dispatched, now, request.token_ids, request.session
        )

    def _shorten(self, workers: Sequence[Worker], now: float) -> Shorten | None:
        """What picks from workers that are too many to look at each."""
        if len(workers) <= MOST_CONSIDERED or considers_all(self.policy):
            return None
        return lambda hashes: shortlist(workers, hashes, self.index, self.table, now)

    def _candidate(self, worker: Worker, holding: Holding, request: RouteRequest, now: float) -> Candidate:
        return Candidate(
            worker,
            holding.lane,
            worker.lane_load(holding.lane, now),
            self.calibration.rates(worker.key),
            holding.overlap,
            holding.block_size,
            request.prompt_tokens,
            holding.cached_tokens,
        )

    def _foundation(self, chosen: Candidate, holding: Holding, lookup: Lookup) -> Foundation:
        return Foundation(
            followed=chosen.lane.followed,
            settled=chosen.load.requests == chosen.load.decoding,
            block_size=holding.own_size,
            block_hashes=lookup.hashes.get(holding.own_size),
            held_blocks=holding.own_blocks,
            tail=holding.tail,
        )

    def _chosen(
        self, asked: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random
    ) -> tuple[Policy, list[Cost], int]:
        """Who says what each candidate costs, what they cost, and the position of the cheapest."""
        try:
            costs = self.policy.costs(asked, candidates, rng)
            return self.policy, costs, _cheapest_of(costs, len(candidates), rng)
        except Exception:
            # A fault in a policy must not cost the client its answer: load alone decides, and the fault is loud.
            self.policy_failures += 1
            if self.policy_failures == 1:
                _log.exception("policy %s failed; requests go to the least loaded worker", self.policy.name)
            fallback = LeastLoadedPolicy()
            costs = fallback.costs(asked, candidates, rng)
            return fallback, costs, cheapest(costs, rng)

    def _dispatch(self, decision: Decision, now: float) -> None:
        """Book the decision's load and enter what its worker will hold."""
        self._dispatched += 1
        request, worker = decision.request, decision.worker
        if worker in self.table.set_aside:
            self.table.note_sent(worker, now)
        uncached = max(0, request.prompt_tokens - decision.cached_tokens)
        rates = self.calibration.rates(worker.key)
        prefill_ends_at = now + rates.prefill_s(decision.tokens_ahead, decision.attended_ahead)
        ends_at = None if request.stream else prefill_ends_at
        decision.booking = self.table.book(
            worker, request.request_id, uncached, ends_at, decision.lane, attended(decision.cached_tokens, uncached)
        )
        self._predict(decision, prefill_ends_at)

    def _predict(self, decision: Decision, prefill_ends_at: float) -> None:
        """Enter what the worker will hold once it has prefilled this, so that a twin is not sent elsewhere."""
        foundation, lane = decision.foundation, decision.lane.key
        model = self._models.get(lane)
        if not foundation.block_hashes:
            return
        if model is None:
            self.index.predict(lane, foundation.block_hashes, prefill_ends_at + PREDICTION_SLACK_S)
        else:
            model.sent(foundation.block_hashes, foundation.tail)

    def _correct(self, decision: Decision, outcome: Outcome) -> None:
        """Take back what was predicted of a prompt that was not computed; of an answered one keep what it left."""
        foundation, model = decision.foundation, self._models.get(decision.lane.key)
        hashes, token_ids = foundation.block_hashes, decision.request.token_ids
        if hashes is None or token_ids is None:
            return
        if outcome.computed_nothing:
            self._withdraw(decision, hashes)
        elif model is not None and outcome.completed and _is_whole(decision.request, token_ids):
            _keep(model, decision, hashes, token_ids, outcome)

    def _withdraw(self, decision: Decision, hashes: BlockHashes) -> None:
        foundation, model = decision.foundation, self._models.get(decision.lane.key)
        if model is not None:
            model.withdrawn(hashes, foundation.held_blocks, foundation.tail)
        else:
            self.index.truncate(decision.lane.key, hashes, foundation.held_blocks)


def _cheapest_of(costs: Sequence[Cost], candidates: int, rng: random.Random) -> int:
    """`cheapest`; UnusableCosts where these are no costs of so many."""
    if len(costs) != candidates:
        raise UnusableCosts(f"it gave {len(costs)} costs for {candidates} workers")
    if any(math.isnan(cost.total) for cost in costs):
        raise UnusableCosts("it gave a cost that is no number")
    return cheapest(costs, rng)


def _beside(decision: Decision, seconds: float) -> tuple[float, int, int]:
    """How many requests of its lane decoded in the mean while it did, itself included; how many prompt tokens were
    computed there meanwhile, and those before each of them.
    """
    booking = decision.booking
    assert booking is not None
    (tokens, attended_tokens), (tokens_before, attended_before) = booking.prefilled_until, booking.prefilled_since
    return (booking.until - booking.since) / seconds, tokens - tokens_before, attended_tokens - attended_before


def _is_whole(request: RouteRequest, token_ids: Sequence[int]) -> bool:
    """Whether the ids are all of what the engine got."""
    return request.complete and request.prompt_tokens == len(token_ids)


def _keep(
    model: CacheModel, decision: Decision, hashes: BlockHashes, token_ids: Sequence[int], outcome: Outcome
) -> None:
    """Enter what an answered request left in a cache without events, and what its report says of the guess."""
    foundation, reported = decision.foundation, outcome.cached_tokens
    size = foundation.block_size
    if foundation.tail is not None and reported is not None:
        model.tail_reported(foundation.tail, reported > foundation.held_blocks * size)
    model.ended(hashes, token_ids, size, outcome.output_tokens or 0)
    if reported is not None and foundation.settled:
        model.reported(hashes, size, decision.cached_tokens, reported)
