"""Each publisher of a worker is followed on a lane of its own, whatever becomes of it, against real publishers."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from gateway.fleet_of_one import NOBODY, FleetOfOne, fleet_of_one, source_of, until
from kv_event.publisher import Publisher
from kv_event.subscribed import block
from kv_event.wire_format import cleared
from warmroute.block import Namespace, hash_blocks
from warmroute.gateway.fleet_report import event_counts, member_report
from warmroute.worker import WorkerId, WorkerSpec, default_name

SILENT = "tcp://127.0.0.1:1"


@asynccontextmanager
async def publishers(count: int, f: FleetOfOne) -> AsyncIterator[list[Publisher]]:
    """That many ranks, each with block 10 * (rank + 1) in its cache."""
    async with AsyncExitStack() as stack:
        ranks = [Publisher() for _ in range(count)]
        for rank, publisher in enumerate(ranks):
            await stack.enter_async_context(publisher.serve())
            await publisher.publish(block(10 * (rank + 1)))
        f.discovered(*(source_of(publisher, rank if count > 1 else None) for rank, publisher in enumerate(ranks)))
        await until(lambda: all(stream.listening.state().complete for stream in f.member.streams))
        await asyncio.sleep(0.1)
        yield ranks


async def test_each_rank_has_its_own_sequence_and_lane() -> None:
    async with fleet_of_one() as f, publishers(2, f) as (first, second):
        assert [lane.rank for lane in f.member.worker.lanes] == [0, 1]
        for number in (1, 2):
            await first.publish(block(number))
        await until(lambda: f.holds(1, 2, 10, rank=0))
        assert f.holds(20, rank=1)
        await second.publish(block(3))
        await until(lambda: f.holds(3, 20, rank=1))
        assert f.holds(1, 2, 10, rank=0)
        assert [stream.listening.state().last_seq for stream in f.member.streams] == [2, 1]


async def test_a_clear_of_one_rank_touches_only_its_lane() -> None:
    async with fleet_of_one() as f, publishers(2, f) as (first, _):
        await first.publish(cleared())
        await until(lambda: f.holds(rank=0))
        assert f.holds(20, rank=1)


async def test_a_restart_of_one_rank_touches_only_its_lane() -> None:
    async with fleet_of_one() as f:
        old, other, new = Publisher(), Publisher(), Publisher()
        leaving = old.serve()
        await leaving.__aenter__()
        async with other.serve():
            await old.publish(block(10))
            await other.publish(block(20))
            f.discovered(source_of(old, 0), source_of(other, 1))
            await until(lambda: f.holds(10, rank=0) and f.holds(20, rank=1))
            await leaving.__aexit__(None, None, None)
            async with new.serve(old.endpoint, old.replay_endpoint):
                await new.publish(block(30), lose=True)
                await until(lambda: f.holds(30, rank=0))
                assert f.holds(20, rank=1)
                assert [stream.listening.state().restarts for stream in f.member.streams] == [1, 0]


async def test_a_rank_that_publishes_elsewhere_is_another_process_and_clears_only_its_lane() -> None:
    async with fleet_of_one() as f, publishers(2, f) as (first, second):
        lanes = f.member.worker.lanes
        moved = Publisher()
        async with moved.serve():
            await moved.publish(block(40))
            f.discovered(source_of(moved, 0), source_of(second, 1))
            assert not f.holds(10, rank=0)
            await until(lambda: f.holds(40, rank=0))
            assert f.holds(20, rank=1)
            assert f.member.worker.lanes == lanes
            await first.publish(block(11))
            await asyncio.sleep(0.1)
            assert f.holds(40, rank=0), "nobody listens there any more"


async def test_a_rank_that_is_gone_takes_its_lane_along() -> None:
    async with fleet_of_one() as f, publishers(3, f) as (first, _, third):
        gone = f.stream(1)
        f.discovered(source_of(first, 0), source_of(third, 2))
        assert [lane.rank for lane in f.member.worker.lanes] == [0, 2]
        assert f.router.index.blocks(gone.lane.key) == 0
        assert (f.holds(10, rank=0), f.holds(30, rank=2)) == (True, True)
        await gone.listening.wait()


async def test_the_same_publisher_told_again_changes_nothing() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        stream = f.stream()
        f.discovered(source_of(publisher))
        assert f.stream() is stream
        assert f.holds(10)


async def test_a_readiness_blip_wipes_nothing_that_events_confirm() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        f.discovered(source_of(publisher))
        f.member.prober.came_up(f.member.worker)
        assert f.holds(10)


async def test_a_publisher_that_is_connected_is_kept_when_an_answer_leaves_it_out() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        f.discovered()
        f.member.prober.came_up(f.member.worker)
        assert f.holds(10)
        await publisher.publish(block(11))
        await until(lambda: f.holds(10, 11))


async def test_a_publisher_that_is_gone_and_not_named_any_more_is_let_go() -> None:
    async with fleet_of_one() as f:
        async with publishers(1, f):
            assert f.holds(10)
        await until(lambda: not f.stream().listening.state().connected)
        f.discovered()
        assert list(f.member.streams) == []
        assert f.router.index.size() == 0


async def test_late_events_of_a_removed_worker_change_nothing_and_its_address_starts_with_nothing() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        for number in range(50):
            await publisher.publish(block(number))
        assert await f.fleet.remove(f.member.worker.id)
        assert f.router.index.size() == 0
        again = f.fleet.add(WorkerSpec(NOBODY))
        await asyncio.sleep(0.1)
        assert f.router.index.size() == 0
        assert again.lanes[0].key != f.member.worker.lanes[0].key


async def test_a_listener_that_failed_is_told_and_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    async with fleet_of_one(WorkerSpec(NOBODY, kv_events="tcp://*:1")) as f:
        f.discovered("tcp://*:1")
        failed = f.stream().listening
        await failed.wait()
        f.discovered("tcp://*:1")
        assert f"listening to worker {default_name(WorkerId(NOBODY))} had failed" in caplog.text
        assert f.stream().listening is not failed


async def test_a_publisher_that_never_answers_is_told_once_and_the_lane_is_guessed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fleet_of_one() as f:
        f.discovered(SILENT)
        assert "nobody answers" not in caplog.text
        f.stream().since -= 60.0
        for _ in range(3):
            f.discovered(SILENT)
        assert caplog.text.count("nobody answers where its KV events are published") == 1
        assert predicted_for_an_hour(f)


async def test_a_publisher_that_tells_nothing_though_there_is_something_to_tell_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher = Publisher()
    async with publisher.serve(), fleet_of_one() as f:
        f.discovered(source_of(publisher))
        await until(f.is_complete)
        for _ in range(3):
            f.discovered(source_of(publisher))
        assert not f.stream().is_silent(), "no request, nothing to tell"
        f.router.index.predict(f.stream().lane.key, hash_blocks([1, 1], 2, Namespace()), 1e9)
        for _ in range(4):
            f.discovered(source_of(publisher))
        assert caplog.text.count("tells of no block") == 1
        assert predicted_for_an_hour(f)
        (counts,) = event_counts([f.member])
        assert not counts.complete
        await asyncio.sleep(0.1)
        await publisher.publish(block(7))
        await until(lambda: f.stream().listening.state().batches == 1)
        f.discovered(source_of(publisher))
        assert not f.stream().is_silent()
        assert not predicted_for_an_hour(f)


def predicted_for_an_hour(f: FleetOfOne) -> bool:
    """Whether the router takes what it sends there for cached until something shows otherwise."""
    return not f.member.worker.lanes[0].followed


async def test_a_replay_is_waited_for_but_not_forever() -> None:
    async with fleet_of_one() as f:
        assert not f.member.catching_up(time.monotonic()), "there is nothing to hear"
        f.discovered(SILENT)
        began = f.stream().since
        assert f.member.catching_up(began + 1.0)
        assert not f.member.catching_up(began + 60.0)


async def test_each_lane_is_reported_with_what_it_holds() -> None:
    async with fleet_of_one() as f, publishers(2, f) as (first, _):
        await first.publish(block(1))
        first.spend_number()
        await first.publish(block(2))
        await until(lambda: f.holds(1, 2, 10, rank=0))
        report = member_report(f.member, f.router, time.monotonic())["kv_events"]
        assert [(lane["rank"], lane["blocks"], lane["endpoint"], lane["complete"]) for lane in report] == [
            (0, 3, f.stream(0).source.endpoint, False),
            (1, 1, f.stream(1).source.endpoint, True),
        ]


async def test_a_lane_that_proved_wrong_is_learned_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with fleet_of_one() as f, publishers(2, f):
        worker, lane = f.member.worker, f.stream(0).lane
        f.router.index.store(lane.key, 0, None, [99], [99, 99], 2)  # type: ignore[arg-type]
        assert f.holds(10, 99, rank=0)
        f.fleet.resync(worker, lane, "its answers said otherwise")
        await until(lambda: f.holds(10, rank=0))
        assert f.holds(20, rank=1)
        assert "rank 0: its prefixes are learned anew: its answers said otherwise" in caplog.text
        assert member_report(f.member, f.router, 0.0)["kv_events"][0]["resyncs"] == 1


async def test_without_events_a_lane_that_proved_wrong_is_forgotten() -> None:
    async with fleet_of_one() as f:
        f.discovered()
        (lane,) = f.member.worker.lanes
        f.router.index.predict(lane.key, hash_blocks([1, 1], 2, Namespace()), 1e9)
        f.fleet.resync(f.member.worker, lane, "test")
        assert f.router.index.blocks(lane.key) == 0
        assert await f.fleet.remove(f.member.worker.id)
        f.fleet.resync(f.member.worker, lane, "a worker that is gone")


async def test_what_was_known_before_is_gone_on_from_rank_by_rank() -> None:
    async with fleet_of_one() as f, publishers(2, f) as (first, second):
        saved = await f.fleet.snapshots()
        assert [(lane.worker, lane.rank) for lane in saved] == [(NOBODY, 0), (NOBODY, 1)]
        await first.publish(block(1))
        # What the publishers could repeat is not what the router knows: only so can it be told where it came from.
        first.buffer, second.buffer = first.buffer[-2:], []
        async with fleet_of_one(restored=saved) as g:
            assert await g.fleet.snapshots() == list(saved), "a publisher not found yet costs nothing"
            g.discovered(source_of(first, 0), source_of(second, 1))
            await until(lambda: g.is_complete(0) and g.is_complete(1))
            assert g.holds(1, 10, rank=0)
            assert g.holds(rank=1), "it does not have the batch that was saved any more: another process"
            assert {lane.rank for lane in await g.fleet.snapshots()} == {0, 1}


async def test_what_was_known_of_a_publisher_that_is_there_no_more_is_let_go() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        (saved,) = await f.fleet.snapshots()
        elsewhere = dataclasses.replace(saved, endpoint=SILENT)
        async with fleet_of_one(restored=[elsewhere]) as g:
            assert await g.fleet.snapshots() == [elsewhere]
            g.discovered()
            assert await g.fleet.snapshots() == [elsewhere], "an engine that is starting may not say yet"
            g.discovered(source_of(publisher))
            await until(g.is_complete)
            assert [lane.endpoint for lane in await g.fleet.snapshots()] == [publisher.endpoint]


async def test_a_file_is_loaded_into_the_lanes_that_it_fits() -> None:
    async with fleet_of_one() as f, publishers(1, f) as (publisher,):
        (saved,) = await f.fleet.snapshots()
        f.router.index.clear(f.stream().lane.key)
        strange = [dataclasses.replace(saved, worker="http://h:1"), dataclasses.replace(saved, rank=7)]
        aimless = dataclasses.replace(saved, position=None)
        assert f.fleet.load([*strange, aimless, saved]) == [saved]
        await until(lambda: f.holds(10) and f.is_complete())
        await asyncio.sleep(0.1)
        await publisher.publish(block(11))
        await until(lambda: f.holds(10, 11))
