"""A subscription that goes on from what was known before, and one that has to learn its lane anew."""

import asyncio

import pytest

from kv_event.publisher import Publisher
from kv_event.subscribed import WORKER, Subscribed, block, connected, holding, real_index, subscribed
from kv_event.wire_format import cleared, encode
from warmroute.kv_event import Gap, Position
from warmroute.kv_event.frames import mark_of
from warmroute.prefix_index import PrefixIndex

_NUMBERS = range(20)


async def known_until(publisher: Publisher, batches: int) -> tuple[Position, bytes]:
    """What a router knew when it had heard that many batches, blocks 0, 1, ..."""
    async with subscribed(publisher) as s:
        await connected(s)
        for number in range(batches):
            await publisher.publish(block(number))
        await s.applied(*range(batches))
        position, saved = await s.subscription.snapshot()
        assert position is not None
        assert s.subscription.position() == position
    publisher.replays.clear()
    return position, saved


def held(index: PrefixIndex) -> list[int]:
    return holding(index, WORKER, _NUMBERS)


async def settled(s: Subscribed) -> None:
    await s.until(lambda: s.subscription.state().complete)


async def test_a_position_says_the_same_in_every_process() -> None:
    publisher = Publisher()
    async with publisher.serve():
        position, _ = await known_until(publisher, 3)
    assert position == Position(2, mark_of(encode([block(2)], 1700000002.0, 0)))
    assert mark_of(b"payload") == 7 << 32 | 0x422C6A15


async def test_the_same_process_is_gone_on_from() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        await publisher.publish(block(3))
        publisher.buffer = publisher.buffer[2:]
        async with subscribed(publisher, index, start=position, saved=saved) as s:
            assert s.subscription.position() == position
            await settled(s)
            assert held(index) == [0, 1, 2, 3]
            assert s.diary.applied == [3]
            assert publisher.replays == [2]
            assert (s.diary.dropped, s.diary.restarts, s.diary.gaps) == ([], 0, [])


async def test_an_index_that_holds_the_blocks_already_is_gone_on_from() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        index.restore(WORKER, saved)
        async with subscribed(publisher, index, start=position) as s:
            await settled(s)
            assert held(index) == [0, 1, 2]
            assert s.diary.applied == []


@pytest.mark.parametrize("batches", [0, 1, 3, 5], ids=lambda n: f"{n}-batches")
async def test_another_process_is_learned_from_its_beginning(batches: int) -> None:
    old, new, index = Publisher(), Publisher(), real_index()
    async with old.serve():
        position, saved = await known_until(old, 3)
    async with new.serve():
        for number in range(batches):
            await new.publish(block(10 + number))
        async with subscribed(new, index, start=position, saved=saved) as s:
            await settled(s)
            assert held(index) == list(range(10, 10 + batches))
            assert len(s.diary.dropped) == 1
            assert s.subscription.state().restarts == 0


async def test_a_process_that_has_gone_on_beyond_what_it_can_repeat_is_learned_as_far_as_it_can() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        for number in range(3, 8):
            await publisher.publish(block(number))
        publisher.buffer = publisher.buffer[-2:]
        async with subscribed(publisher, index, start=position, saved=saved) as s:
            await s.applied(6, 7)
            assert held(index) == [6, 7]
            assert not s.subscription.state().complete
            assert s.subscription.position() == Position(7, publisher_mark(publisher), complete=False)


def publisher_mark(publisher: Publisher) -> int:
    return mark_of(publisher.buffer[-1][1])


async def test_a_partial_view_is_still_partial_when_it_is_gone_on_from() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        partial = Position(position.seq, position.mark, complete=False)
        async with subscribed(publisher, index, start=partial, saved=saved) as s:
            await connected(s, replay=False)
            await publisher.publish(block(3))
            await s.applied(3)
            assert not s.subscription.state().complete
            await publisher.publish(cleared())
            await s.applied(3, 4)
            assert s.subscription.state().complete


@pytest.mark.parametrize("replay", [True, False], ids=["mute", "no-endpoint"])
async def test_where_nothing_is_repeated_the_next_batch_is_proof(replay: bool) -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        publisher.answers_replays = False
        async with subscribed(publisher, index, replay, deadline_s=0.1, start=position, saved=saved) as s:
            await connected(s, replay=False)
            assert not s.subscription.state().complete
            assert held(index) == [0, 1, 2]
            await publisher.publish(block(3))
            await s.applied(3)
            assert held(index) == [0, 1, 2, 3]
            assert s.subscription.state().complete


@pytest.mark.parametrize("replay", [True, False], ids=["mute", "no-endpoint"])
@pytest.mark.parametrize("next_seq", [0, 2, 4], ids=["restart", "same-number", "gap"])
async def test_where_nothing_is_repeated_any_other_batch_begins_anew(replay: bool, next_seq: int) -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        publisher.answers_replays = False
        publisher.next_seq = next_seq
        async with subscribed(publisher, index, replay, deadline_s=0.1, start=position, saved=saved) as s:
            await connected(s, replay=False)
            await publisher.publish(block(10))
            await s.applied(next_seq)
            assert held(index) == [10]
            assert len(s.diary.dropped) == 1
            assert s.subscription.state().complete == (next_seq == 0)


async def test_saved_blocks_that_cannot_be_read_are_learned_anew() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve():
        position, saved = await known_until(publisher, 3)
        async with subscribed(publisher, index, start=position, saved=saved[:-1]) as s:
            await settled(s)
            assert held(index) == [0, 1, 2]
            assert s.diary.applied == [0, 1, 2]
            assert len(s.diary.dropped) == 1


async def test_a_lane_is_learned_anew_from_everything_that_can_be_repeated() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        for number in range(3):
            await publisher.publish(block(number))
        await s.applied(0, 1, 2)
        index.forget(WORKER)
        index.add_worker(WORKER, 0)
        await s.subscription.resync()
        assert held(index) == [0, 1, 2]
        assert s.subscription.state().complete
        await publisher.publish(block(3))
        await s.applied(0, 1, 2, 0, 1, 2, 3)
        assert held(index) == [0, 1, 2, 3]
        state = s.subscription.state()
        assert (state.resyncs, state.restarts, state.gaps) == (1, 0, 0)


async def test_a_lane_learned_anew_from_a_part_is_incomplete() -> None:
    publisher, index = Publisher(buffer_steps=2), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        for number in range(4):
            await publisher.publish(block(number))
        await s.applied(0, 1, 2, 3)
        await s.subscription.resync()
        assert held(index) == [2, 3]
        assert s.diary.gaps == [(Gap(0, 1), False)]
        assert not s.subscription.state().complete


@pytest.mark.parametrize("replay", [True, False], ids=["mute", "no-endpoint"])
async def test_a_lane_that_cannot_be_learned_anew_is_empty_and_incomplete(replay: bool) -> None:
    publisher, index = Publisher(answers_replays=False), real_index()
    async with publisher.serve(), subscribed(publisher, index, replay, deadline_s=0.1) as s:
        await connected(s, replay=False)
        await publisher.publish(block(0))
        await s.applied(0)
        assert s.subscription.state().complete
        await s.subscription.resync()
        assert held(index) == []
        await publisher.publish(block(1))
        await s.applied(0, 1)
        assert held(index) == [1]
        assert s.diary.gaps == []
        assert not s.subscription.state().complete


async def test_a_blob_and_its_position_belong_together() -> None:
    publisher, index = Publisher(), real_index()
    async with publisher.serve(), subscribed(publisher, index) as s:
        await connected(s)
        for number in range(10):
            await publisher.publish(block(number))
        taken = []
        while len(s.diary.applied) < 10:
            taken.append(await s.subscription.snapshot())
            await asyncio.sleep(0)
        taken.append(await s.subscription.snapshot())
        for position, saved in taken:
            index.restore(WORKER, saved)
            assert held(index) == list(range(0 if position is None else position.seq + 1))
