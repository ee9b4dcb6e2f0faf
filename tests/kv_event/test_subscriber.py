"""A subscription against a real publisher on loopback."""

import asyncio
import contextlib
import itertools
import socket
import threading
from contextlib import suppress

import pytest

from kv_event.publisher import END, Publisher
from kv_event.subscribed import WORKER, Diary, Subscribed, block, connected, holds, real_index, subscribed
from kv_event.wire_format import cleared, removed, stored
from warmroute.errors import ConfigError
from warmroute.kv_event import EventSource, Gap, Subscription
from warmroute.kv_event.frames import SLICE_MESSAGES
from warmroute.kv_event.replay import THREAD_NAME

LAYOUTS = pytest.mark.parametrize("with_topic", [True, False], ids=["topic", "no-topic"])


@LAYOUTS
async def test_live_batches_are_applied_in_order(with_topic: bool) -> None:
    publisher = Publisher(live_with_topic=with_topic, replies_with_topic=with_topic)
    index = real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        await publisher.publish(block(1), block(2))
        await publisher.publish(removed([1]))
        await s.applied(0, 1)
        assert (holds(index, 1), holds(index, 2)) == (False, True)
        state = s.subscription.state()
        assert (state.connected, state.complete, state.last_seq, state.batches) == (True, True, 1, 2)
        assert (state.gaps, state.restarts, state.duplicates, state.undecodable) == (0, 0, 0, 0)
        assert state.last_event_at is not None
        assert asyncio.get_running_loop().time() - state.last_event_at < 10


@LAYOUTS
async def test_a_late_joiner_gets_what_it_missed(with_topic: bool) -> None:
    publisher = Publisher(live_with_topic=with_topic, replies_with_topic=with_topic)
    async with publisher.serve():
        for number in range(3):
            await publisher.publish(block(number))
        async with subscribed(publisher) as s:
            await s.applied(0, 1, 2)
            await connected(s)
            await publisher.publish(block(3))
            await s.applied(0, 1, 2, 3)
            assert publisher.replays == [0]
            assert s.diary.gaps == []


async def test_a_late_joiner_without_replay_goes_on_with_a_partial_view() -> None:
    publisher = Publisher()
    async with publisher.serve():
        for number in range(3):
            await publisher.publish(block(number))
        async with subscribed(publisher, replay=False) as s:
            await connected(s, replay=False)
            assert not s.subscription.state().complete
            await publisher.publish(block(3))
            await publisher.publish(block(4))
            await s.applied(3, 4)
            assert s.diary.gaps == [(Gap(0, 2), False)]
            assert not s.subscription.state().complete
            await publisher.publish(cleared())
            await s.applied(3, 4, 5)
            assert s.subscription.state().complete


async def test_without_replay_a_view_from_the_first_batch_on_is_complete() -> None:
    publisher = Publisher()
    async with publisher.serve(), subscribed(publisher, replay=False) as s:
        await connected(s, replay=False)
        await publisher.publish(block(0))
        await s.applied(0)
        assert s.subscription.state().complete


async def test_a_view_cleared_for_an_adapter_loaded_again_is_partial() -> None:
    publisher = Publisher()
    async with publisher.serve(), subscribed(publisher) as s:
        await connected(s)
        await publisher.publish(block(0))
        for number in (1, 2):
            await publisher.publish(stored([number], [number, number], lora_name="sql", lora_id=number))
        await s.applied(0, 1, 2)
        assert not s.subscription.state().complete
        await publisher.publish(cleared())
        await s.applied(0, 1, 2, 3)
        assert s.subscription.state().complete


@LAYOUTS
async def test_a_gap_is_filled_in_order(with_topic: bool) -> None:
    publisher = Publisher(replies_with_topic=with_topic)
    async with publisher.serve(), subscribed(publisher) as s:
        await connected(s)
        for number in range(6):
            await publisher.publish(block(number), lose=number in (2, 3))
        await s.applied(0, 1, 2, 3, 4, 5)
        assert s.diary.gaps == [(Gap(2, 3), True)]
        assert publisher.replays == [0, 2]
        state = s.subscription.state()
        assert (state.complete, state.gaps, state.unfilled_gaps, state.replays) == (True, 1, 0, 2)


async def test_a_gap_that_nobody_can_fill_is_counted_once_and_left() -> None:
    publisher = Publisher()
    async with publisher.serve(), subscribed(publisher) as s:
        await connected(s)
        await publisher.publish(block(0))
        publisher.spend_number()
        await publisher.publish(block(2))
        await publisher.publish(block(3))
        await s.applied(0, 2, 3)
        assert s.diary.gaps == [(Gap(1, 1), False)]
        assert publisher.replays == [0, 1]
        state = s.subscription.state()
        assert (state.complete, state.unfilled_gaps) == (False, 1)
        await publisher.publish(cleared(), block(9))
        await s.applied(0, 2, 3, 4)
        assert s.subscription.state().complete


async def test_a_gap_partly_filled_is_a_gap() -> None:
    publisher = Publisher(buffer_steps=2)
    async with publisher.serve(), subscribed(publisher) as s:
        await connected(s)
        await publisher.publish(block(0))
        for number in (1, 2, 3):
            await publisher.publish(block(number), lose=number != 3)
        await s.applied(0, 2, 3)
        assert s.diary.gaps == [(Gap(1, 2), False)]
        assert not s.subscription.state().complete


async def test_history_older_than_the_replay_buffer_is_a_gap() -> None:
    publisher = Publisher(buffer_steps=2)
    async with publisher.serve():
        for number in range(5):
            await publisher.publish(block(number))
        async with subscribed(publisher) as s:
            await s.applied(3, 4)
            assert s.diary.gaps == [(Gap(0, 2), False)]
            assert not s.subscription.state().complete


async def test_a_mute_replay_costs_one_deadline_per_connection() -> None:
    publisher = Publisher(answers_replays=False)
    async with publisher.serve(), subscribed(publisher, deadline_s=0.2) as s:
        await s.until(lambda: s.subscription.state().replays == 1)
        await asyncio.sleep(0.1)
        for number in range(6):
            await publisher.publish(block(number), lose=number in (1, 3))
        await s.applied(0, 2, 4, 5)
        assert publisher.replays == [0]
        assert s.diary.gaps == [(Gap(1, 1), False), (Gap(3, 3), False)]
        assert not s.subscription.state().complete


async def test_a_replay_that_breaks_off_is_noticed_and_resumed() -> None:
    publisher = Publisher(replies_at_most=2)
    async with publisher.serve():
        for number in range(5):
            await publisher.publish(block(number))
        async with subscribed(publisher, deadline_s=0.3) as s:
            await s.applied(0, 1)
            assert not s.subscription.state().complete
            publisher.replies_at_most = None
            await s.until(lambda: s.subscription.state().connected)
            await asyncio.sleep(0.4)
            assert not s.subscription.state().complete
            await publisher.publish(block(5))
            await s.applied(0, 1, 2, 3, 4, 5)
            assert s.diary.gaps == [(Gap(2, 4), True)]
            assert s.subscription.state().complete


async def test_joining_in_the_middle_of_a_burst_applies_each_batch_once() -> None:
    publisher = Publisher()
    total = 400

    async def burst() -> None:
        for number in range(total):
            await publisher.publish(block(number), lose=number % 97 == 96)
            await asyncio.sleep(0.0005)

    async with publisher.serve():
        publishing = asyncio.create_task(burst())
        await asyncio.sleep(0.03)
        async with subscribed(publisher) as s:
            await publishing
            await publisher.publish(block(total))
            await s.until(lambda: s.subscription.state().last_seq == total)
            assert s.diary.applied == list(range(total + 1))
            assert s.subscription.state().complete


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


async def test_a_publisher_that_is_not_there_yet_is_waited_for() -> None:
    publisher = Publisher()
    # Ports of plain sockets: ZeroMQ closes its own in the background, and a late one would still accept.
    endpoint, replay_endpoint = (f"tcp://127.0.0.1:{port}" for port in free_ports(2))
    publisher.endpoint, publisher.replay_endpoint = endpoint, replay_endpoint
    async with subscribed(publisher) as s:
        await asyncio.sleep(0.1)
        state = s.subscription.state()
        assert (state.connected, state.complete, state.replays) == (False, False, 0)
        async with publisher.serve(endpoint, replay_endpoint):
            await publisher.publish(block(0), lose=True)
            await s.applied(0)


async def test_bad_messages_end_nothing() -> None:
    publisher = Publisher()
    async with publisher.serve(), subscribed(publisher) as s:
        await connected(s)
        await publisher.publish(block(0))
        await publisher.send_raw(b"one frame")
        await publisher.send_raw(b"topic", b"short", b"payload")
        await publisher.send_raw(b"topic", END, b"")
        await publisher.publish(["BlockMoved"], block(1))
        await publisher.publish(payload=b"\xc1garbage")
        await publisher.publish(block(3))
        await s.applied(0, 1, 3)
        state = s.subscription.state()
        assert (state.undecodable, state.rejected, state.gaps, state.last_seq) == (3, 1, 0, 3)
        assert len(s.diary.undecodable) == 3
        assert not state.complete


async def test_a_replay_and_a_burst_leave_the_loop_to_other_lanes_between_slices() -> None:
    publisher = Publisher()
    total = 3_000
    turns = set()

    async def others() -> None:
        while True:
            turns.add(len(s.diary.applied))
            await asyncio.sleep(0)

    async with publisher.serve():
        for number in range(total // 2):
            await publisher.publish(block(number))
        async with subscribed(publisher) as s:
            busy = asyncio.create_task(others())
            await connected(s)
            for number in range(total // 2, total):
                await publisher.publish(block(number))
            await s.until(lambda: len(s.diary.applied) == total)
            busy.cancel()
    assert s.diary.applied == list(range(total))
    turns.add(total)
    seen = sorted(turns)
    assert max(later - earlier for earlier, later in itertools.pairwise(seen)) <= SLICE_MESSAGES


async def test_events_of_a_forgotten_worker_stay_out() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        await publisher.publish(block(0))
        await s.applied(0)
        index.forget(WORKER)
        await publisher.publish(block(1))
        await s.applied(0, 1)
        assert index.size() == 0


async def test_an_end_during_a_replay_is_prompt() -> None:
    publisher = Publisher(answers_replays=False)
    loop = asyncio.get_running_loop()
    async with publisher.serve():
        async with subscribed(publisher, deadline_s=30) as s:
            await s.until(lambda: publisher.replays == [0])
            begun = loop.time()
            (waiting,) = (thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME))
        await asyncio.to_thread(waiting.join, 5)
        assert not waiting.is_alive()
        assert loop.time() - begun < 5


@pytest.mark.parametrize(
    "source",
    [
        EventSource("tcp://*:5557"),
        EventSource("nonsense"),
        EventSource("tcp://worker..svc:5557"),
        EventSource("tcp://" + "w" * 64 + ":5557"),
        EventSource("tcp://127.0.0.1:5557", "tcp://*:5558"),
    ],
)
async def test_an_unusable_address_is_a_clear_error(source: EventSource) -> None:
    with pytest.raises(ConfigError, match=r"endpoint '.*' cannot be connected to"):
        await asyncio.wait_for(Subscription(WORKER, source, real_index()).run(), 5)


async def test_a_topic_selects() -> None:
    publisher = Publisher()
    async with publisher.serve():
        source = EventSource(publisher.endpoint, publisher.replay_endpoint, topic="kv@")
        diary = Diary()
        subscription = Subscription(WORKER, source, real_index(), diary)
        s = Subscribed(subscription, diary, asyncio.create_task(subscription.run()))
        await connected(s)
        await publisher.send_raw(b"load", (7).to_bytes(8), b"\xc1")
        await publisher.publish(block(0))
        await s.applied(0)
        assert subscription.state().undecodable == 0
        s.task.cancel()
        with suppress(asyncio.CancelledError):
            await s.task
