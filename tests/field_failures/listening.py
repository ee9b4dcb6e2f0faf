"""Subscriptions to real publishers that feed an index, as the router has them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from field_failures.heard import Heard
from kv_event.publisher import Publisher
from warmroute.kv_event import EventSource, Subscription


@dataclass
class Ears:
    """Subscriptions by lane."""

    by_lane: dict[int, Subscription]
    tasks: list[asyncio.Task[None]]

    async def until(self, condition: Callable[[], bool], what: str, limit_s: float = 10.0) -> None:
        """Wait for what must become true soon; a subscription that fails meanwhile fails the test."""
        try:
            async with asyncio.timeout(limit_s):
                while not condition():
                    for task in self.tasks:
                        if task.done():
                            await task
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"not within {limit_s} s: {what}") from None

    async def connected(self) -> None:
        """Wait until every publisher is heard live: a subscription reaches it a moment after the handshake."""
        await self.until(lambda: all(ear.state().connected for ear in self.by_lane.values()), "connections")
        await asyncio.sleep(0.15)


@asynccontextmanager
async def listening(
    heard: Heard, publishers: Mapping[int, Publisher], *, replay: bool = True, deadline_s: float = 5.0
) -> AsyncIterator[Ears]:
    """Listens to a publisher for each lane; waits until they are connected, and caught up where there is a replay."""
    by_lane = {}
    for lane, publisher in publishers.items():
        source = EventSource(publisher.endpoint, publisher.replay_endpoint if replay else None)
        by_lane[lane] = Subscription(lane, source, heard.index, replay_deadline_s=deadline_s)
    ears = Ears(by_lane, [asyncio.create_task(ear.run()) for ear in by_lane.values()])
    try:
        await ears.connected()
        yield ears
    finally:
        for task in ears.tasks:
            task.cancel()
        for task in ears.tasks:
            with suppress(asyncio.CancelledError):
                await task
