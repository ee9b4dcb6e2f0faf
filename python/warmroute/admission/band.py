"""Those who wait for the same workers in the same class: fair between tenants, the shortest first within each.

Start-time fair queueing (Goyal, Vin and Cheng, 1996): a tenant's next request starts, in virtual time, where its last
one ended, or at the present if that is later; the earliest start goes first, and ends its work later. So of two tenants
that both wait neither gets ahead of the other by more than one request's work.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from warmroute.admission.waiter import Waiter

WaiterT = TypeVar("WaiterT", bound=Waiter)

# A request whose prompt is cached whole still takes its turn.
LEAST_WORK_S = 0.001
# Tenants of whom it is remembered where their last request ended. Who is forgotten starts at the present.
MOST_TENANTS = 1024


@dataclass(slots=True)
class _Tenant(Generic[WaiterT]):
    """One tenant's waiters; `heap` also has some that have left."""

    tag: int
    heap: list[tuple[float, int, WaiterT]] = field(default_factory=list)
    count: int = 0

    def head(self) -> WaiterT:
        while not self.heap[0][2].waiting:
            heapq.heappop(self.heap)
        return self.heap[0][2]

    def compact(self) -> None:
        if len(self.heap) > 2 * self.count + 16:
            self.heap = [entry for entry in self.heap if entry[2].waiting]
            heapq.heapify(self.heap)


@dataclass(slots=True)
class Band(Generic[WaiterT]):
    """Waiters of one model and class."""

    _tenants: dict[str, _Tenant[WaiterT]] = field(default_factory=dict, init=False)
    _starts: list[tuple[float, int, str]] = field(default_factory=list, init=False)
    _ends: dict[str, float] = field(default_factory=dict, init=False)
    _present: float = field(default=0.0, init=False)
    _tags: int = field(default=0, init=False)
    _count: int = field(default=0, init=False)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[WaiterT]:
        return (entry[2] for tenant in self._tenants.values() for entry in tenant.heap if entry[2].waiting)

    def counts(self) -> Mapping[str, int]:
        """How many of each tenant wait."""
        return {name: tenant.count for name, tenant in self._tenants.items()}

    def newest(self, tenant: str) -> WaiterT | None:
        """The waiter of this tenant that came last."""
        waiters = self._tenants[tenant].heap if tenant in self._tenants else []
        return max((entry[2] for entry in waiters if entry[2].waiting), key=lambda each: each.number, default=None)

    def add(self, waiter: WaiterT) -> None:
        """Let a request wait."""
        tenant = self._tenants.get(waiter.tenant)
        if tenant is None:
            tenant = self._tenants[waiter.tenant] = _Tenant(0)
            self._start(waiter.tenant, tenant)
        # A second that has passed counts as a second of work less: for all of them alike, so the order stays.
        heapq.heappush(tenant.heap, (waiter.work_s + waiter.arrived_at, waiter.number, waiter))
        waiter.waiting = True
        tenant.count += 1
        self._count += 1

    def head(self) -> WaiterT | None:
        """Whose turn it is."""
        while self._starts:
            _, tag, name = self._starts[0]
            tenant = self._tenants.get(name)
            if tenant is not None and tenant.tag == tag:
                return tenant.head()
            heapq.heappop(self._starts)
        return None

    def pop(self, waiter: WaiterT) -> None:
        """Take the head out: it gets its turn, which its tenant pays for."""
        start, _, name = heapq.heappop(self._starts)
        assert name == waiter.tenant, "only the head has its turn"
        self._present = max(self._present, start)
        self._ends[name] = start + max(waiter.work_s, LEAST_WORK_S)
        tenant = self._tenants[name]
        self._leave(waiter, tenant)
        if tenant.count:
            self._start(name, tenant)
        self._forget_ends()

    def remove(self, waiter: WaiterT) -> None:
        """Take a waiter out of turn, which costs its tenant nothing."""
        self._leave(waiter, self._tenants[waiter.tenant])
        if len(self._starts) > 2 * len(self._tenants) + 16:
            self._starts = [entry for entry in self._starts if self._is_current(entry)]
            heapq.heapify(self._starts)

    def check_integrity(self) -> None:
        """Assert that counts are true, that each tenant has one start, and that nothing piles up."""
        assert self._count == sum(1 for _ in self), "waiters are miscounted"
        for name, tenant in self._tenants.items():
            waiting = sum(entry[2].waiting for entry in tenant.heap)
            assert waiting == tenant.count > 0, f"tenant {name}: {waiting} wait, {tenant.count} are counted"
            assert len(tenant.heap) <= 2 * tenant.count + 16, f"tenant {name} keeps those who left"
        assert sum(map(self._is_current, self._starts)) == len(self._tenants), "a tenant has no start, or two"
        assert len(self._ends) <= MOST_TENANTS, "too many tenants are remembered"

    def _is_current(self, entry: tuple[float, int, str]) -> bool:
        tenant = self._tenants.get(entry[2])
        return tenant is not None and tenant.tag == entry[1]

    def _start(self, name: str, tenant: _Tenant[WaiterT]) -> None:
        self._tags += 1
        tenant.tag = self._tags
        heapq.heappush(self._starts, (max(self._present, self._ends.get(name, 0.0)), tenant.tag, name))

    def _leave(self, waiter: WaiterT, tenant: _Tenant[WaiterT]) -> None:
        waiter.waiting = False
        tenant.count -= 1
        self._count -= 1
        if tenant.count:
            tenant.compact()
        else:
            del self._tenants[waiter.tenant]

    def _forget_ends(self) -> None:
        if len(self._ends) > MOST_TENANTS:
            later = sorted(
                (name for name, end in self._ends.items() if end > self._present), key=self._ends.__getitem__
            )
            self._ends = {name: self._ends[name] for name in later[-MOST_TENANTS // 2 :]}
