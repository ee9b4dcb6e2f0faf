"""What is saved of a lane is what it holds, also while lanes come, go and are loaded."""

import asyncio

from gateway.fleet_of_one import fleet_of_one
from gateway.test_event_streams import publishers
from warmroute.kv_event import EventSource, Position, Subscription
from warmroute.prefix_index import PrefixIndex


async def test_a_lane_that_is_forgotten_while_it_is_taken_is_left_out() -> None:
    async with fleet_of_one() as f, publishers(1, f):
        f.router.index.forget(f.stream().lane.key)
        assert await f.fleet.snapshots() == []


async def test_a_lane_that_was_just_loaded_is_saved_with_its_blocks() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        (saved,) = await f.fleet.snapshots()
        # Nothing can be repeated: a position without its blocks would never be made good.
        publisher.buffer = publisher.buffer[-1:]
        for pause_s in (0.0, 0.0, 0.001, 0.002):
            assert f.fleet.load([saved]) == [saved]
            await asyncio.sleep(pause_s)
            (again,) = await f.fleet.snapshots()
            assert (again.position, again.blob) == (saved.position, saved.blob)


async def test_a_view_that_waits_for_its_turn_is_saved_as_it_was() -> None:
    index = PrefixIndex()
    index.add_worker(0, 0)
    waiting = Subscription(0, EventSource("tcp://127.0.0.1:9"), index, start=Position(5, 7), saved=b"blocks")
    assert await waiting.snapshot() == (Position(5, 7), b"blocks")
