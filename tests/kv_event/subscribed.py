"""A subscription under test, and an observer that writes down what it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from kv_event.publisher import Publisher
from kv_event.wire_format import stored
from warmroute.block import Namespace, hash_blocks
from warmroute.kv_event import ApplyReport, EventSource, Gap, Position, Subscription
from warmroute.prefix_index import PrefixIndex

WORKER = 1


@dataclass
class Diary:
    """An observer that writes down what it is told."""

    applied: list[int] = field(default_factory=list)
    gaps: list[tuple[Gap, bool]] = field(default_factory=list)
    connections: list[bool] = field(default_factory=list)
    undecodable: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    restarts: int = 0

    def connection_changed(self, worker: int, connected: bool) -> None:
        self.connections.append(connected)

    def batches_applied(self, worker: int, seqs: Sequence[int], report: ApplyReport) -> None:
        assert worker == WORKER
        self.applied += seqs

    def gap_found(self, worker: int, gap: Gap, filled: bool) -> None:
        self.gaps.append((gap, filled))

    def engine_restarted(self, worker: int) -> None:
        self.restarts += 1
        self.applied.append(-1)

    def saved_view_dropped(self, worker: int, reason: str) -> None:
        self.dropped.append(reason)

    def frame_undecodable(self, worker: int, reason: str) -> None:
        self.undecodable.append(reason)


@dataclass
class Subscribed:
    subscription: Subscription
    diary: Diary
    task: asyncio.Task[None]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                if self.task.done():
                    await self.task
                await asyncio.sleep(0.005)

    async def applied(self, *seqs: int) -> None:
        await self.until(lambda: len(self.diary.applied) >= len(seqs))
        assert self.diary.applied == list(seqs)


@asynccontextmanager
async def subscribed(
    publisher: Publisher,
    index: PrefixIndex | None = None,
    replay: bool = True,
    deadline_s: float = 5.0,
    start: Position | None = None,
    saved: bytes | None = None,
) -> AsyncIterator[Subscribed]:
    source = EventSource(publisher.endpoint, publisher.replay_endpoint if replay else None)
    diary = Diary()
    index = real_index() if index is None else index
    subscription = Subscription(WORKER, source, index, diary, start=start, saved=saved, replay_deadline_s=deadline_s)
    task = asyncio.create_task(subscription.run())
    try:
        yield Subscribed(subscription, diary, task)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        index.check_integrity()


async def connected(subscribed: Subscribed, replay: bool = True) -> None:
    """Waits until live batches arrive: a subscription reaches the publisher a moment after the handshake."""
    state = subscribed.subscription.state
    await subscribed.until(lambda: state().connected and (state().complete or not replay))
    await asyncio.sleep(0.1)


def block(number: int) -> dict[str, Any]:
    return stored([number], [number, number])


def real_index() -> PrefixIndex:
    index = PrefixIndex()
    index.add_worker(WORKER, 0)
    return index


def holding(index: PrefixIndex, lane: int, numbers: Iterable[int]) -> list[int]:
    """Which of these `block`s a lane holds. Not examined further: the listening thread may be changing it."""
    return [number for number in numbers if lane in index.match(hash_blocks([number, number], 2, Namespace()), 0.0)]


def holds(index: PrefixIndex, number: int) -> bool:
    return holding(index, WORKER, [number]) == [number]
