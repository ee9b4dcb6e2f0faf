"""Workers come, change and go, and what is known of them follows."""

import asyncio
import dataclasses
import math

import pytest

from gateway.fleet_of_one import FACTS, fleet_of_one
from warmroute.block import Namespace, hash_blocks
from warmroute.worker import WorkerFacts, WorkerStatus


async def test_a_worker_without_events_that_comes_up_again_is_taken_as_empty() -> None:
    async with fleet_of_one() as f:
        f.discovered()
        lane = f.member.worker.lanes[0].key
        f.router.index.predict(lane, hash_blocks(range(16), 16, Namespace()), math.inf)
        f.member.prober.came_up(f.member.worker)
        assert f.router.index.blocks(lane) == 0


async def test_a_removed_worker_ends_its_tasks_and_late_discoveries_change_nothing() -> None:
    async with fleet_of_one() as f:
        f.discovered("tcp://127.0.0.1:1")
        listening = f.stream().listening
        assert await f.fleet.remove(f.member.worker.id)
        assert f.member.task.done()
        assert listening.ended
        f.discovered("tcp://127.0.0.1:2")
        assert len(f.router.table) == 0
        assert list(f.member.streams) == []
        assert f.router.index.workers() == []


async def test_a_worker_that_does_not_tell_its_block_size_gets_the_configured_one() -> None:
    async with fleet_of_one(block_size=64) as f:
        f.discovered(facts=WorkerFacts({"m": False}))
        assert f.member.worker.block_size == 64
        f.discovered(facts=FACTS)
        assert f.member.worker.block_size == 16


async def test_a_configured_block_size_that_the_engine_denies_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with fleet_of_one() as f:
        f.member.worker.spec = dataclasses.replace(f.member.worker.spec, block_size=64)
        for _ in range(3):
            f.discovered(facts=FACTS)
        assert caplog.text.count("is configured with blocks of 64 tokens and says 16") == 1


async def test_an_unreached_worker_is_set_aside_and_looked_at_soon() -> None:
    async with fleet_of_one() as f:
        f.router.table.set_status(f.member.worker, WorkerStatus.READY)
        looked_at = f.member.prober.last_look_at
        f.fleet.suspect(f.member.worker, "connection refused")
        assert f.member.worker.status is WorkerStatus.DOWN
        while f.member.prober.last_look_at == looked_at:
            await asyncio.sleep(0.01)


async def test_a_worker_that_broke_off_is_looked_at_soon_and_not_set_aside() -> None:
    async with fleet_of_one() as f:
        f.router.table.set_status(f.member.worker, WorkerStatus.READY)
        looked_at = f.member.prober.last_look_at
        f.fleet.look_at(f.member.worker)
        seen = [f.member.worker.status]
        while f.member.prober.last_look_at == looked_at:
            await asyncio.sleep(0.01)
        seen.append(f.member.worker.status)
        assert seen == [WorkerStatus.READY, WorkerStatus.DOWN], "nobody answers there, which the look tells"
