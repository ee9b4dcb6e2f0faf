"""What the gateway does around the router: lets requests wait, tries another worker, tells how each one ended."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from warmroute.admission import FailoverOptions, RetryBudget
from warmroute.engine_model import Output
from warmroute.router import Decision, Outcome, Refusal, Router, RouteWaiter, Turn, Turns
from warmroute.simulator.agenda import Agenda
from warmroute.simulator.fleet import Fleet
from warmroute.simulator.flight import Flight
from warmroute.simulator.ledger import NOBODY, Requests
from warmroute.simulator.pod import Pod

# As the live router: workers that are tried before the first byte, and the look for room that nobody calls for.
MAX_ATTEMPTS = 3
_LOOK_S = 0.1


@dataclass(slots=True, eq=False)
class _Waiting(RouteWaiter):
    flight: Flight


class Front:
    """The way of each request to a worker and of its answer back. `ended` is told of every request once.

    holds_back: requests wait here while every worker is full; else all are sent on at once.
    """

    def __init__(
        self,
        router: Router,
        agenda: Agenda,
        requests: Requests,
        options: FailoverOptions,
        holds_back: bool,
        seed: str,
        ended: Callable[[Flight], None],
    ) -> None:
        self.fleet: Fleet
        self._router, self._agenda, self._requests = router, agenda, requests
        self._options, self._ended = options, ended
        self._rng = random.Random(f"{seed}/router")
        self._budget = RetryBudget(options.retry_share, options.retry_floor_per_s)
        self._turns: Turns[_Waiting] = Turns(router, self._rng, options.queue_size)
        self._holds_back = holds_back
        self._look_at: float | None = None
        router.table.has_room = self._has_room

    @property
    def held(self) -> int:
        """Requests that wait here."""
        return len(self._turns)

    def arrive(self, flight: Flight) -> None:
        """A request has come."""
        self._budget.request()
        self.fleet.tell()
        now = self._agenda.now
        if self._holds_back and self._turns.concerns(flight.request, now):
            self._hold(flight, now)
        else:
            self._follow(flight, self._router.route(flight.request, now, self._rng))

    def answered(self, pod: Pod, flight: Flight, output: Output) -> None:
        """New tokens of an answer have come."""
        now, decision = self._agenda.now, flight.decision
        assert decision is not None
        if output.is_first:
            flight.first_at = self._requests.first_at[flight.row] = now
            self._router.first_byte(decision, now)
        if output.finished:
            self._requests.output_tokens[flight.row] = output.generated
            self._router.settle(decision, self._whole(flight, output), self._rng)
            self._end(flight, "")

    def broke_off(self, pod: Pod, flight: Flight) -> None:
        """The worker has died with this request in work."""
        self._fail(flight, retried_on_budget=True)

    def _hold(self, flight: Flight, now: float) -> None:
        request = flight.request
        work_s = self._turns.work_s(request, now)
        if isinstance(work_s, Refusal):
            self._follow(flight, work_s)
            return
        waiter = _Waiting(request.model, "", 0, work_s, now, now + self._options.queue_timeout_s, request, flight)
        turned_away = self._turns.enter(waiter, now)
        if turned_away is not None:
            self._take(turned_away)
        self._plan_look(now)

    def _take(self, turn: Turn[_Waiting]) -> None:
        self._follow(turn.waiter.flight, turn.verdict)

    def _has_room(self) -> None:
        if len(self._turns):
            self._plan_look(self._agenda.now)

    def _plan_look(self, at: float) -> None:
        """Look then at the latest."""
        if self._look_at is None or at < self._look_at:
            self._look_at = at
            self._agenda.at(at, self._look, at)

    def _look(self, planned_at: float) -> None:
        if planned_at != self._look_at:
            return  # an earlier one has taken its place
        now = self._agenda.now
        self.fleet.tell()
        for expired in self._turns.expire(now):
            self._take(expired)
        while (turn := self._turns.next(now)) is not None:
            self._take(turn)
        self._look_at = None
        if len(self._turns):
            self._plan_look(now + _LOOK_S)

    def _follow(self, flight: Flight, verdict: Decision | Refusal) -> None:
        if isinstance(verdict, Refusal):
            self._end(flight, verdict.reason.value)
            return
        flight.decision = verdict
        pod, row = self.fleet.of(verdict.worker.id), flight.row
        self._requests.sent_at[row] = self._agenda.now
        self._requests.worker[row] = pod.position
        self._requests.predicted[row] = verdict.cached_tokens
        if not pod.is_alive:
            self._fail(flight, retried_on_budget=False)
        elif not pod.fits(flight):
            self._router.settle(verdict, Outcome(True, False, self._agenda.now, status=400), self._rng)
            self._end(flight, "too-long")
        else:
            pod.submit(flight)

    def _fail(self, flight: Flight, *, retried_on_budget: bool) -> None:
        """The worker refuses, or breaks off; another one is asked unless bytes have gone out."""
        now, decision = self._agenda.now, flight.decision
        assert decision is not None
        begun = flight.first_at is not None
        outcome = Outcome(False, True, now, first_byte_at=flight.first_at, status=200 if begun else None)
        self._router.settle(decision, outcome, self._rng)
        flight.tried.add(decision.worker.id)
        self.fleet.look(self.fleet.of(decision.worker.id))  # the prober is called for
        if begun:
            self._end(flight, "worker-died")
            return
        self._requests.worker[flight.row], flight.cached = NOBODY, 0
        if len(flight.tried) >= MAX_ATTEMPTS or (retried_on_budget and not self._budget.take(now)):
            self._follow(flight, self._router.give_up(flight.request, "enough workers have failed it"))
        else:
            self._follow(flight, self._router.route(flight.request, now, self._rng, tried=flight.tried))

    def _whole(self, flight: Flight, output: Output) -> Outcome:
        return Outcome(
            completed=True,
            worker_failed=False,
            ended_at=self._agenda.now,
            first_byte_at=flight.first_at,
            status=200,
            prompt_tokens=flight.request.prompt_tokens,
            output_tokens=output.generated,
            cached_tokens=flight.cached,
        )

    def _end(self, flight: Flight, failed: str) -> None:
        row = flight.row
        self._requests.ended_at[row] = self._agenda.now
        self._requests.cached[row] = flight.cached
        self._requests.failed[row] = failed
        self._ended(flight)
