"""The order of waiting, written as its definition: everybody in one list, searched for each turn."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from warmroute.admission import Waiter

Band = tuple[str | None, int]


@dataclass
class NaiveQueue:
    """As `WaitingQueue`, in plain lists and dicts; nothing in it is ever cleared."""

    size: int
    waiting: list[Waiter] = field(default_factory=list)
    present: dict[Band, float] = field(default_factory=dict)
    ends: dict[tuple[Band, str], float] = field(default_factory=dict)
    starts: dict[tuple[Band, str], tuple[float, int]] = field(default_factory=dict)
    steps: int = 0

    def offer(self, waiter: Waiter) -> Waiter | None:
        loser = self._loser(waiter) if len(self.waiting) >= self.size else None
        if loser is waiter:
            return waiter
        if loser is not None:
            self.remove(loser)
        if not self._of(_band(waiter), waiter.tenant):
            self._start(_band(waiter), waiter.tenant)
        self.waiting.append(waiter)
        return loser

    def pop(self, fits: Callable[[str | None], bool]) -> Waiter | None:
        heads = [self._head(band) for band in {_band(waiter) for waiter in self.waiting} if fits(band[0])]
        if not heads:
            return None
        head = min(heads, key=lambda waiter: (waiter.priority, waiter.number))
        band, tenant = _band(head), head.tenant
        start, _ = self.starts.pop((band, tenant))
        self.present[band] = max(self.present.get(band, 0.0), start)
        self.ends[band, tenant] = start + max(head.work_s, 0.001)
        self.waiting.remove(head)
        if self._of(band, tenant):
            self._start(band, tenant)
        return head

    def remove(self, waiter: Waiter) -> bool:
        if waiter not in self.waiting:
            return False
        self.waiting.remove(waiter)
        if not self._of(_band(waiter), waiter.tenant):
            del self.starts[_band(waiter), waiter.tenant]
        return True

    def expire(self, now: float) -> list[Waiter]:
        due = sorted((w for w in self.waiting if w.deadline <= now), key=lambda w: (w.deadline, w.number))
        for waiter in due:
            self.remove(waiter)
        return due

    def _head(self, band: Band) -> Waiter:
        tenants = {waiter.tenant for waiter in self.waiting if _band(waiter) == band}
        tenant = min(tenants, key=lambda name: self.starts[band, name])
        return min(self._of(band, tenant), key=lambda waiter: (waiter.work_s + waiter.arrived_at, waiter.number))

    def _of(self, band: Band, tenant: str) -> list[Waiter]:
        return [waiter for waiter in self.waiting if _band(waiter) == band and waiter.tenant == tenant]

    def _start(self, band: Band, tenant: str) -> None:
        self.steps += 1
        start = max(self.present.get(band, 0.0), self.ends.get((band, tenant), 0.0))
        self.starts[band, tenant] = (start, self.steps)

    def _loser(self, coming: Waiter) -> Waiter:
        everybody = [*self.waiting, coming]
        lowest = max(waiter.priority for waiter in everybody)
        last = [waiter for waiter in everybody if waiter.priority == lowest]
        counts = Counter(waiter.tenant for waiter in last)
        most = max(counts.values())
        return max((waiter for waiter in last if counts[waiter.tenant] == most), key=lambda waiter: waiter.number)


def _band(waiter: Waiter) -> Band:
    return waiter.model, waiter.priority
