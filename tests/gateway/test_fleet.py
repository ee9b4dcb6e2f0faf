"""Workers come, change and go, and the index follows them."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from warmroute.block import Tier
from warmroute.gateway.fleet import Fleet, Member
from warmroute.gateway.prober import Discovery
from warmroute.kv_event import EventSource
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Router
from warmroute.worker import WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

_FACTS = WorkerFacts({"m": False}, 16, 1000)
_NOBODY = "http://127.0.0.1:9"


@asynccontextmanager
async def one_worker(*, block_size: int | None = None) -> AsyncIterator[tuple[Fleet, Router, Member]]:
    """A fleet of one worker that nobody answers for; the probing sleeps after its first, failed look."""
    router = Router(WorkerTable(), PrefixIndex(), POLICIES["warmroute"]())
    async with aiohttp.ClientSession() as session:
        fleet = Fleet(router, session, probe_interval_s=60.0, block_size=block_size)
        worker = fleet.add(WorkerSpec(_NOBODY))
        member = fleet.member(worker.id)
        assert member is not None
        while member.prober.last_look_at is None:
            await asyncio.sleep(0.01)
        yield fleet, router, member
        await fleet.close()


def discovered(member: Member, *sources: str, facts: WorkerFacts = _FACTS) -> None:
    """The worker is asked and names these publishers."""
    found = Discovery(facts, tuple(EventSource(source) for source in sources))
    member.prober.discovered(member.worker, found)


def store(router: Router, member: Member) -> None:
    router.index.store(member.worker.lanes[0].key, Tier.DEVICE, None, [1], list(range(16)), 16)


async def test_another_publisher_is_another_process_and_starts_with_nothing() -> None:
    async with one_worker() as (_, router, member):
        discovered(member, "tcp://127.0.0.1:1")
        store(router, member)
        discovered(member, "tcp://127.0.0.1:1")
        assert router.index.blocks(member.worker.lanes[0].key) == 1, "the same publisher: nothing has changed"
        discovered(member, "tcp://127.0.0.1:2")
        assert router.index.blocks(member.worker.lanes[0].key) == 0
        assert [source.endpoint for source in member.subscriptions] == ["tcp://127.0.0.1:2"]


async def test_a_subscription_that_failed_is_begun_anew() -> None:
    async with one_worker() as (_, router, member):
        discovered(member, "tcp://127.0.0.1:1")
        store(router, member)
        _, task = member.subscriptions[EventSource("tcp://127.0.0.1:1")]
        task.cancel()
        await asyncio.wait([task])
        discovered(member, "tcp://127.0.0.1:1")
        assert router.index.blocks(member.worker.lanes[0].key) == 0, (
            "what comes again in the replay must not count twice"
        )
        assert not member.subscriptions[EventSource("tcp://127.0.0.1:1")][1].done()


async def test_a_worker_without_events_that_comes_up_again_is_taken_as_empty() -> None:
    async with one_worker() as (_, router, member):
        discovered(member)
        store(router, member)
        member.prober.came_up(member.worker)
        assert router.index.blocks(member.worker.lanes[0].key) == 0


async def test_coming_up_again_wipes_nothing_that_events_confirm() -> None:
    async with one_worker() as (_, router, member):
        discovered(member, "tcp://127.0.0.1:1")
        store(router, member)
        member.prober.came_up(member.worker)
        assert router.index.blocks(member.worker.lanes[0].key) == 1


async def test_a_removed_worker_ends_its_tasks_and_late_discoveries_change_nothing() -> None:
    async with one_worker() as (fleet, router, member):
        discovered(member, "tcp://127.0.0.1:1")
        assert await fleet.remove(member.worker.id)
        assert member.task.done()
        discovered(member, "tcp://127.0.0.1:2")
        assert len(router.table) == 0
        assert all(task.done() for _, task in member.subscriptions.values())


async def test_a_worker_that_does_not_tell_its_block_size_gets_the_configured_one() -> None:
    async with one_worker(block_size=64) as (_, _, member):
        discovered(member, facts=WorkerFacts({"m": False}))
        assert member.worker.block_size == 64
        discovered(member, facts=_FACTS)
        assert member.worker.block_size == 16


async def test_a_configured_block_size_that_the_engine_denies_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with one_worker() as (_, _, member):
        member.worker.spec = dataclasses.replace(member.worker.spec, block_size=64)
        for _ in range(3):
            discovered(member, facts=_FACTS)
        assert caplog.text.count("is configured with blocks of 64 tokens and says 16") == 1


async def test_a_publisher_that_never_answers_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with one_worker() as (_, _, member):
        discovered(member, "tcp://127.0.0.1:1")
        assert "nobody answers" not in caplog.text
        member.listening_since -= 60.0
        for _ in range(3):
            discovered(member, "tcp://127.0.0.1:1")
        assert caplog.text.count("nobody answers at tcp://127.0.0.1:1") == 1


async def test_an_unreached_worker_is_set_aside_and_looked_at_soon() -> None:
    async with one_worker() as (fleet, router, member):
        router.table.set_status(member.worker, WorkerStatus.READY)
        looked_at = member.prober.last_look_at
        fleet.suspect(member.worker, "connection refused")
        assert member.worker.status is WorkerStatus.DOWN
        while member.prober.last_look_at == looked_at:
            await asyncio.sleep(0.01)


async def test_a_worker_that_broke_off_is_looked_at_soon_and_not_set_aside() -> None:
    async with one_worker() as (fleet, router, member):
        router.table.set_status(member.worker, WorkerStatus.READY)
        looked_at = member.prober.last_look_at
        fleet.look_at(member.worker)
        seen = [member.worker.status]
        while member.prober.last_look_at == looked_at:
            await asyncio.sleep(0.01)
        seen.append(member.worker.status)
        assert seen == [WorkerStatus.READY, WorkerStatus.DOWN], "nobody answers there, which the look tells"


async def test_a_replay_is_waited_for_but_not_forever() -> None:
    async with one_worker() as (_, _, member):
        assert not member.catching_up(member.listening_since), "there is nothing to hear"
        discovered(member, "tcp://127.0.0.1:1")
        assert member.catching_up(member.listening_since + 1.0)
        assert not member.catching_up(member.listening_since + 60.0)
