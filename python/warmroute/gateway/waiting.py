"""Where requests wait while every worker that could take them is full: the queue, with tasks and a clock around it."""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute.diagnostics.failover_metrics import QueueFigures
from warmroute.gateway.relay import Arrival
from warmroute.router import Decision, Outcome, Refusal, Router, RouteRequest, RouteWaiter, Turn, Turns

PRIORITY_HEADER = "x-warmroute-priority"
"""A request's class: a whole number, lower first, as vLLM's `priority`; 0 without it."""
TIMEOUT_HEADER = "x-warmroute-timeout-s"
"""How many seconds a request may wait for a worker, where that is less than the router's own limit."""

_LARGEST_PRIORITY = 100
# Between two looks at what no worker's end of a request tells: deadlines, reports of others' load, rests that are over.
_TICK_S = 0.1


@dataclass(slots=True, eq=False)
class _Waiting(RouteWaiter):
    """A request that waits; its handler wakes up with what became of it, None where its client has left."""

    arrival_id: int
    ended: "asyncio.Future[Decision | Refusal | None]"


@dataclass(slots=True)
class WaitingCounts:
    """What became of those who waited; `waited_s` is the sum over all of them."""

    ends: Counter[str] = field(default_factory=Counter)
    waited_s: float = 0.0


class WaitingRoom:
    """Lets requests wait, and wakes the handler of each once it has its turn."""

    def __init__(
        self,
        router: Router,
        rng: random.Random,
        size: int,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = WaitingCounts()
        self.timeout_s = timeout_s
        self._router = router
        self._clock = clock
        self._turns: Turns[_Waiting] = Turns(router, rng, size)
        self._by_arrival: dict[int, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._planned = False
        router.table.has_room = self._has_room

    def __len__(self) -> int:
        return len(self._turns)

    def resize(self, size: int) -> None:
        """Let at most so many wait from now on; 0: nobody."""
        self._turns.queue.size = max(size, len(self._turns))

    def figures(self) -> QueueFigures:
        """What metrics tell of it."""
        now = self._clock()
        oldest_s = max((now - waiter.arrived_at for waiter in self._turns.queue), default=0.0)
        return QueueFigures(len(self._turns), oldest_s, self.counts.ends, self.counts.waited_s)

    def concerns(self, request: RouteRequest) -> bool:
        """Whether a request that has just come has to wait: for room, or behind others who do."""
        return self._turns.concerns(request, self._clock())

    async def wait(self, arrival: Arrival, request: RouteRequest, tenant: str) -> Decision | Refusal | None:
        """The decision on a request, booked, once a worker has room for it; or why there is none.

        None where its client has left. A decision that nobody waits for any more is given back.
        """
        now = self._clock()
        work_s = self._turns.work_s(request, now)
        if isinstance(work_s, Refusal):
            return work_s
        waiter = _Waiting(
            model=request.model,
            tenant=tenant,
            priority=_priority(arrival.header(PRIORITY_HEADER)),
            work_s=work_s,
            arrived_at=now,
            deadline=now + _timeout_s(arrival.header(TIMEOUT_HEADER), self.timeout_s),
            request=request,
            arrival_id=arrival.request_id,
            ended=asyncio.get_running_loop().create_future(),
        )
        return await self._wait(waiter, now)

    def left(self, arrival_id: int) -> None:
        """A client has gone: if its request waits, it waits no longer. To be told of every arrival that has ended."""
        waiter = self._by_arrival.get(arrival_id)
        if waiter is not None and self._turns.queue.remove(waiter):
            self._end(waiter, None, "client-gone")

    def check_integrity(self) -> None:
        """Assert that the queue is whole, and that somebody waits for each that is in it."""
        self._turns.queue.check_integrity()
        assert {id(waiter) for waiter in self._turns.queue} == {id(waiter) for waiter in self._by_arrival.values()}

    async def _wait(self, waiter: _Waiting, now: float) -> Decision | Refusal | None:
        self._by_arrival[waiter.arrival_id] = waiter
        turned_away = self._turns.enter(waiter, now)
        if turned_away is not None:
            self._take(turned_away)
        self._plan()
        try:
            return await waiter.ended
        except asyncio.CancelledError:
            self._abandon(waiter)
            raise

    def _abandon(self, waiter: _Waiting) -> None:
        """The handler has been cancelled, maybe after the decision was made."""
        self._by_arrival.pop(waiter.arrival_id, None)
        self._turns.queue.remove(waiter)
        decided = waiter.ended.result() if waiter.ended.done() and not waiter.ended.cancelled() else None
        if isinstance(decided, Decision):
            self._router.settle(decided, Outcome(False, False, self._clock(), unsent=True))

    def _has_room(self) -> None:
        if self._by_arrival:
            self._plan()

    def _plan(self) -> None:
        """Look for room soon: not inside of what has just ended, which is not fully taken in yet."""
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Turn away whose time is over, and give those their turn for whom there is room."""
        self._planned = False
        now = self._clock()
        for expired in self._turns.expire(now):
            self._take(expired)
        while (turn := self._turns.next(now)) is not None:
            self._take(turn)
        self._set_timer()

    def _take(self, turn: Turn[_Waiting]) -> None:
        self._end(turn.waiter, turn.verdict, turn.word)

    def _end(self, waiter: _Waiting, verdict: Decision | Refusal | None, end: str) -> None:
        self._by_arrival.pop(waiter.arrival_id, None)
        self.counts.ends[end] += 1
        self.counts.waited_s += self._clock() - waiter.arrived_at
        if not waiter.ended.done():
            waiter.ended.set_result(verdict)
        elif isinstance(verdict, Decision):  # its handler has been cancelled, and has not yet come to say so
            self._router.settle(verdict, Outcome(False, False, self._clock(), unsent=True))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._look) if self._by_arrival else None


def _priority(told: str | None) -> int:
    """The class that a request names, as far as it can be one."""
    try:
        return max(-_LARGEST_PRIORITY, min(_LARGEST_PRIORITY, int(told))) if told and len(told) < 10 else 0
    except ValueError:
        return 0


def _timeout_s(told: str | None, most: float) -> float:
    """How long a request may wait: what it says, if that is a time and shorter than `most`."""
    try:
        seconds = float(told) if told is not None and len(told) < 20 else most
    except ValueError:
        return most
    return min(max(seconds, 0.0), most) if math.isfinite(seconds) else most
