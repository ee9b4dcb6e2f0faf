"""What comes while a subscription waits a moment for more, against real publishers on loopback."""

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest

from kv_event.publisher import Publisher
from kv_event.subscribed import WORKER, block, connected, holding, real_index, subscribed
from kv_event.wire_format import stored
from warmroute.kv_event import EventSource, Subscription
from warmroute.prefix_index import PrefixIndex


async def test_a_trickle_a_burst_and_pauses_are_applied_in_order_and_whole() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        for at in range(200):
            await publisher.publish(block(at + 1))
            await asyncio.sleep(0.001 if at < 60 else 0.02 if at % 40 == 0 else 0)
        await s.applied(*range(200))
        assert holding(index, WORKER, range(1, 201)) == list(range(1, 201))
        state = s.subscription.state()
        assert (state.gaps, state.duplicates, state.complete) == (0, 0, True)


async def test_losses_within_what_was_gathered_are_filled_in_their_place() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        for at in range(58):
            await publisher.publish(block(at + 1), lose=at % 7 == 3)
        await s.applied(*range(58))
        state = s.subscription.state()
        assert state.unfilled_gaps == 0
        assert state.gaps == len([at for at in range(58) if at % 7 == 3])
        assert state.complete


async def test_snapshots_and_resyncs_during_a_stream_agree_with_what_was_published() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)

        async def publish() -> None:
            for at in range(300):
                await publisher.publish(block(at + 1))
                await asyncio.sleep(0.001)

        publishing = asyncio.create_task(publish())
        seen = []
        while not publishing.done():
            seen.append(await s.subscription.snapshot())
            if len(seen) % 20 == 0:
                await s.subscription.resync()
            await asyncio.sleep(0.0007)
        await publishing
        await s.until(lambda: s.subscription.state().last_seq == 299)
        assert holding(index, WORKER, range(1, 301)) == list(range(1, 301))
        assert s.subscription.state().complete
        assert s.subscription.state().resyncs > 0
        for position, dump in seen[:: max(1, len(seen) // 20)]:
            restored = real_index()
            restored.restore(WORKER, dump)
            upto = 0 if position is None else position.seq + 1
            assert holding(restored, WORKER, range(1, 302)) == list(range(1, upto + 1))


@pytest.mark.parametrize("after_s", [0.0, 0.0005, 0.001, 0.003, 0.01])
async def test_a_subscription_cancelled_at_any_moment_is_gone_on_with_where_it_stood(after_s: float) -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        async with subscribed(publisher, index) as s:
            await connected(s)
            for at in range(100):
                await publisher.publish(block(at + 1), lose=at == 50)
            await asyncio.sleep(after_s)
            s.task.cancel()
            with suppress(asyncio.CancelledError):
                await s.task
            position, saved = await s.subscription.snapshot()
        upto = 0 if position is None else position.seq + 1
        held = holding(index, WORKER, range(1, 101))
        assert held[:upto] == list(range(1, upto + 1))
        async with subscribed(publisher, index, start=position, saved=None if position is None else saved) as again:
            await again.until(lambda: holding(index, WORKER, range(1, 101)) == list(range(1, 101)))
            assert again.diary.dropped == []


async def test_beside_a_lane_that_floods_another_gets_its_turn() -> None:
    """Not by the clock, but by how much of the flood is applied before the other's batch is."""
    index = PrefixIndex()
    loud, quiet = Publisher(), Publisher()
    async with AsyncExitStack() as stack:
        subscriptions = []
        for lane, publisher in enumerate((loud, quiet), 1):
            index.add_worker(lane, 0)
            await stack.enter_async_context(publisher.serve())
            source = EventSource(publisher.endpoint, publisher.replay_endpoint)
            subscriptions.append(Subscription(lane, source, index))
        tasks = [asyncio.create_task(subscription.run()) for subscription in subscriptions]
        try:
            async with asyncio.timeout(60):
                while not all(subscription.state().complete for subscription in subscriptions):
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.1)
                await loud.publish(stored([1], [1, 1]))
                await quiet.publish(stored([1], [1, 1]))
                for at in range(20_000):
                    payload = loud.buffer[0][1] if at % 2 else None
                    await loud.publish(block(2 + at % 50), payload=payload)
                    loud.buffer = loud.buffer[:1]
                asked_at = subscriptions[0].state().batches
                await quiet.publish(block(2))
                while subscriptions[1].state().batches < 2:
                    await asyncio.sleep(0)
                between = subscriptions[0].state().batches - asked_at
                while subscriptions[0].state().batches < 20_001:
                    await asyncio.sleep(0.005)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert between < 10_000
