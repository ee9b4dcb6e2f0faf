"""Whose turn it is while every worker is full: the queue in front of `route`. No clock, no tasks.

The decision is made, and booked, at the moment at which the room is noticed: who arrives meanwhile cannot take it.
"""

import random
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from warmroute.admission import Waiter, WaitingQueue
from warmroute.errors import RefusalReason
from warmroute.router.decision import Decision, Refusal, RouteRequest
from warmroute.router.eligibility import all_saturated
from warmroute.router.router import Router

ROUTED = "routed"


@dataclass(slots=True, eq=False)
class RouteWaiter(Waiter):
    """A request that waits to be routed."""

    request: RouteRequest


WaiterT = TypeVar("WaiterT", bound=RouteWaiter)


class Turn(NamedTuple, Generic[WaiterT]):
    """A waiter's end: its decision, booked, or why there is none."""

    waiter: WaiterT
    verdict: Decision | Refusal

    @property
    def word(self) -> str:
        """How it ended, in one word."""
        return ROUTED if isinstance(self.verdict, Decision) else self.verdict.reason.value


class Turns(Generic[WaiterT]):
    """At most `size` requests that wait for room on a router's workers."""

    def __init__(self, router: Router, rng: random.Random, size: int) -> None:
        self._router = router
        self._rng = rng
        self.queue: WaitingQueue[WaiterT] = WaitingQueue(size)

    def __len__(self) -> int:
        return len(self.queue)

    def concerns(self, request: RouteRequest, now: float) -> bool:
        """Whether a request that has just come has to wait: for room, or behind others who do.

        Where no worker is full that costs two looks.
        """
        table = self._router.table
        if not table.saturated and not len(self.queue):
            return False
        return self.queue.waits_for(request.model) or all_saturated(table, request.model, (), now)

    def work_s(self, request: RouteRequest, now: float) -> float | Refusal:
        """The seconds of prefill that are left for a request on its best worker; a refusal where none may have it."""
        preview = self._router.explain(request, now, self._rng)
        if isinstance(preview, Refusal):
            return self._router.refuse(request, preview)
        best = preview.candidates[preview.position]
        return best.rates.prefill_s(best.uncached_tokens, best.attended_tokens)

    def enter(self, waiter: WaiterT, now: float) -> Turn[WaiterT] | None:
        """Let a request wait. Where the queue is full, the end of the one who has to go, maybe its own."""
        loser = self.queue.offer(waiter)
        if loser is None:
            return None
        return self._turn_away(loser, RefusalReason.QUEUE_FULL, f"{len(self.queue)} requests wait already", now)

    def expire(self, now: float) -> list[Turn[WaiterT]]:
        """Those whose time is over."""
        return [
            self._turn_away(
                waiter,
                RefusalReason.QUEUE_DEADLINE,
                f"no worker had room within {now - waiter.arrived_at:.1f} s",
                now,
            )
            for waiter in self.queue.expire(now)
        ]

    def next(self, now: float) -> Turn[WaiterT] | None:
        """The next one for whom there is room, with its decision; None where there is none, or nobody waits."""
        table = self._router.table
        waiter = self.queue.pop(now, lambda model: not all_saturated(table, model, (), now))
        return None if waiter is None else Turn(waiter, self._router.route(waiter.request, now, self._rng))

    def _turn_away(self, waiter: WaiterT, reason: RefusalReason, detail: str, now: float) -> Turn[WaiterT]:
        refusal = Refusal(reason, detail, self.queue.retry_after_s(now))
        return Turn(waiter, self._router.refuse(waiter.request, refusal))
