"""What a subscription makes of a publisher that goes away and comes back, as the same process or as another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from kv_event.publisher import Publisher
from kv_event.subscribed import Subscribed, block, connected, holds, real_index, subscribed
from warmroute.kv_event import Gap
from warmroute.prefix_index import PrefixIndex


@dataclass
class Restarted:
    """A subscription that has seen batches 0 to 2 of one process, at whose addresses another one then begins."""

    subscribed: Subscribed
    index: PrefixIndex
    new: Publisher


@asynccontextmanager
async def restarted(before_reconnection: int, replay: bool = True) -> AsyncIterator[Restarted]:
    """The new process publishes `before_reconnection` batches (blocks 10, 11, ...) that are not heard live."""
    index = real_index()
    old = Publisher()
    leaving = old.serve()
    await leaving.__aenter__()
    endpoint, replay_endpoint = old.endpoint, old.replay_endpoint
    async with subscribed(old, index, replay) as s:
        await connected(s, replay)
        for number in range(3):
            await old.publish(block(number))
        await s.applied(0, 1, 2)
        await leaving.__aexit__(None, None, None)
        await s.until(lambda: not s.subscription.state().connected)
        new = Publisher()
        async with new.serve(endpoint, replay_endpoint):
            for number in range(before_reconnection):
                await new.publish(block(10 + number), lose=True)
            await s.until(lambda: s.subscription.state().connected)
            yield Restarted(s, index, new)


@pytest.mark.parametrize("before_reconnection", [0, 1, 3, 4], ids=lambda n: f"{n}-missed")
async def test_another_process_is_noticed_at_reconnection_whatever_its_numbers(before_reconnection: int) -> None:
    async with restarted(before_reconnection) as r:
        s = r.subscribed
        await s.until(lambda: s.subscription.state().complete)
        assert s.diary.applied == [0, 1, 2, -1, *range(before_reconnection)]
        assert [number for number in (0, 1, 2, 10, 11, 12, 13) if holds(r.index, number)] == list(
            range(10, 10 + before_reconnection)
        )
        await asyncio.sleep(0.1)
        await r.new.publish(block(20))
        await s.applied(0, 1, 2, -1, *range(before_reconnection + 1))
        assert s.subscription.state().restarts == 1
        assert s.diary.connections == [True, False, True]


async def test_without_replay_a_sequence_that_goes_backwards_is_a_restart() -> None:
    async with restarted(1, replay=False) as r:
        s = r.subscribed
        await asyncio.sleep(0.1)
        assert holds(r.index, 0)
        await r.new.publish(block(11))
        await s.applied(0, 1, 2, -1, 1)
        assert [number for number in (0, 1, 2, 10, 11) if holds(r.index, number)] == [11]
        assert s.diary.gaps == [(Gap(0, 0), False)]
        assert not s.subscription.state().complete


async def test_a_broken_connection_to_the_same_process_loses_nothing() -> None:
    """The publisher's address goes away and comes back with its memory, as through a network fault."""
    publisher = Publisher()
    leaving = publisher.serve()
    await leaving.__aenter__()
    async with subscribed(publisher) as s:
        await connected(s)
        await publisher.publish(block(0))
        await publisher.publish(block(1))
        await s.applied(0, 1)
        endpoint, replay_endpoint = publisher.endpoint, publisher.replay_endpoint
        await leaving.__aexit__(None, None, None)
        async with publisher.serve(endpoint, replay_endpoint):
            await publisher.publish(block(2), lose=True)
            await s.applied(0, 1, 2)
            await s.until(lambda: s.subscription.state().complete)
            state = s.subscription.state()
            assert (state.restarts, state.gaps) == (0, 0)
            assert publisher.replays == [0, 1]
