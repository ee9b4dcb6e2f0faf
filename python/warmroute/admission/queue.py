"""The order in which requests wait for a worker with room. A plain data structure: no clock, no tasks.

    priority class   lower numbers first, always
    tenant           within a class, the one that has had least, in seconds of prefill (start-time fair queueing)
    request          within a tenant, the shortest first; each second of waiting counts as a second of work less

Every model has an order of its own, as its workers are its own: one that has room takes the first of those it serves.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from warmroute.admission.band import Band
from warmroute.admission.waiter import Waiter

__all__ = ["Waiter", "WaitingQueue"]

WaiterT = TypeVar("WaiterT", bound=Waiter)

# Of the last so many that left for a worker the rate is taken at which the queue drains.
_DRAINS_KEPT = 32
_SHORTEST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
# Bands that nobody waits in are kept up to here for what they remember of their tenants.
_MOST_BANDS = 256


@dataclass(slots=True)
class WaitingQueue(Generic[WaiterT]):
    """At most `size` waiters. Times are seconds of any one monotonic clock."""

    size: int
    _bands: dict[tuple[str | None, int], Band[WaiterT]] = field(default_factory=dict, init=False)
    _deadlines: list[tuple[float, int, WaiterT]] = field(default_factory=list, init=False)
    _drained: deque[float] = field(default_factory=lambda: deque(maxlen=_DRAINS_KEPT), init=False)
    _count: int = field(default=0, init=False)
    _offered: int = field(default=0, init=False)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[WaiterT]:
        return (waiter for band in self._bands.values() for waiter in band)

    def waits_for(self, model: str | None) -> bool:
        """Whether somebody waits for this model's workers."""
        return any(len(band) > 0 for (name, _), band in self._bands.items() if name == model)

    def offer(self, waiter: WaiterT) -> WaiterT | None:
        """Let a request wait. Where the queue is full somebody has to go: the one who is returned, maybe `waiter`.

        It is the newest of the lowest class, of that tenant who has most waiting there: whoever fills the queue
        loses first.
        """
        assert not waiter.waiting, "a request waits once"
        self._offered += 1
        waiter.number = self._offered
        loser = self._loser(waiter) if self._count >= self.size else None
        if loser is waiter:
            return waiter
        if loser is not None:
            self.remove(loser)
        key = (waiter.model, waiter.priority)
        band = self._bands.get(key)
        if band is None:
            self._drop_empty_bands()
            band = self._bands[key] = Band()
        band.add(waiter)
        heapq.heappush(self._deadlines, (waiter.deadline, waiter.number, waiter))
        self._count += 1
        return loser

    def pop(self, now: float, fits: Callable[[str | None], bool]) -> WaiterT | None:
        """Take out the next of those whose model `fits`, as its workers have room; None where there is none."""
        best: WaiterT | None = None
        for (model, _), band in self._bands.items():
            head = band.head()
            if head is None or not fits(model):
                continue
            if best is None or (head.priority, head.number) < (best.priority, best.number):
                best = head
        if best is not None:
            self._bands[best.model, best.priority].pop(best)
            self._count -= 1
            self._drained.append(now)
            self._forget_deadlines()
        return best

    def remove(self, waiter: WaiterT) -> bool:
        """Take a waiter out of turn, as one whose client has left; False where it does not wait (any more)."""
        if not waiter.waiting:
            return False
        self._bands[waiter.model, waiter.priority].remove(waiter)
        self._count -= 1
        self._forget_deadlines()
        return True

    def expire(self, now: float) -> list[WaiterT]:
        """Take out those whose deadline has come."""
        expired = []
        while self._deadlines and (self._deadlines[0][0] <= now or not self._deadlines[0][2].waiting):
            waiter = heapq.heappop(self._deadlines)[2]
            if self.remove(waiter):
                expired.append(waiter)
        return expired

    def next_deadline(self) -> float | None:
        """When `expire` has something to do next; may be too early where somebody has left."""
        return self._deadlines[0][0] if self._deadlines else None

    def retry_after_s(self, now: float) -> float:
        """After how long one who is turned away may come again: when those who wait now should have gone."""
        if len(self._drained) < 2 or now <= self._drained[0]:
            return _SHORTEST_RETRY_S
        per_s = (len(self._drained) - 1) / (now - self._drained[0])
        return min(max((self._count + 1) / per_s, _SHORTEST_RETRY_S), _LONGEST_RETRY_S)

    def check_integrity(self) -> None:
        """Assert that everybody who waits is in one place only, and counted."""
        waiting = list(self)
        assert len(waiting) == self._count <= self.size, f"{len(waiting)} wait, {self._count} are counted"
        assert len(set(map(id, waiting))) == len(waiting), "somebody waits twice"
        assert all(waiter.waiting for waiter in waiting), "somebody who left still waits"
        due = [id(entry[2]) for entry in self._deadlines if entry[2].waiting]
        assert sorted(due) == sorted(map(id, waiting)), "somebody waits without a deadline"
        assert len(self._deadlines) <= 2 * self._count + 64, "deadlines of those who left pile up"
        for key, band in self._bands.items():
            band.check_integrity()
            assert all((waiter.model, waiter.priority) == key for waiter in band), f"a stranger waits in {key}"

    def _loser(self, waiter: WaiterT) -> WaiterT:
        lowest = max([waiter.priority, *(priority for (_, priority), band in self._bands.items() if len(band))])
        bands = [band for (_, priority), band in self._bands.items() if priority == lowest]
        waiting: Counter[str] = Counter()
        for band in bands:
            waiting.update(band.counts())
        own = lowest + 1  # no priority, so nobody's
        if waiter.priority == lowest:
            waiting[waiter.tenant] += 1
            own = waiter.priority
        most = max(waiting.values(), default=0)
        if own == lowest and waiting[waiter.tenant] == most:
            return waiter
        newest = [band.newest(tenant) for band in bands for tenant, count in waiting.items() if count == most]
        return max((each for each in newest if each is not None), key=lambda each: each.number, default=waiter)

    def _forget_deadlines(self) -> None:
        if len(self._deadlines) > 2 * self._count + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapq.heapify(self._deadlines)

    def _drop_empty_bands(self) -> None:
        if len(self._bands) >= _MOST_BANDS:
            self._bands = {key: band for key, band in self._bands.items() if len(band)}
