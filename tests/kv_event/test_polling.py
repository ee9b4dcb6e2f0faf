"""A listener that asks: against a real HTTP server, through its absences, refusals and restarts."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from kv_event.polled_json import answer, created, event, removed, stored, stored_block
from kv_event.subscribed import WORKER, Diary, real_index
from warmroute.block import Namespace, hash_blocks
from warmroute.errors import ConfigError
from warmroute.kv_event import Gap
from warmroute.kv_event.listener import EventSource, Position
from warmroute.kv_event.polling import PollingListener, polled_url
from warmroute.prefix_index import PrefixIndex

_A, _B = [1, 1], [2, 2]
_CHAIN = stored(None, stored_block(1, _A), stored_block(2, _B))


@dataclass
class Engine:
    """Hands out each of `answers` once, and an empty list where there is none."""

    answers: deque[bytes] = field(default_factory=deque)
    status: int = 200
    asked: int = 0
    url: str = ""

    def says(self, *events: dict[str, Any]) -> None:
        self.answers.append(answer(*events))

    async def handle(self, _request: web.Request) -> web.Response:
        self.asked += 1
        if self.status != 200:
            return web.Response(status=self.status)
        body = self.answers.popleft() if self.answers else b"[]"
        return web.Response(body=body, content_type="application/json")

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator["Engine"]:
        app = web.Application()
        app.add_routes([web.post("/kv_cache_events", self.handle)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()


@dataclass
class Polling:
    listener: PollingListener
    index: PrefixIndex
    diary: Diary
    task: asyncio.Task[None]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                if self.task.done():
                    await self.task
                await asyncio.sleep(0.005)

    def held(self) -> int:
        """Leading blocks of A-B in the index."""
        self.index.check_integrity()
        overlap = self.index.match(hash_blocks([*_A, *_B], 2, Namespace()), 0.0).get(WORKER)
        return 0 if overlap is None else overlap.blocks


@asynccontextmanager
async def polling(url: str, start: Position | None = None, saved: bytes | None = None) -> AsyncIterator[Polling]:
    index, diary = real_index(), Diary()
    listener = PollingListener(WORKER, EventSource(url), index, diary, start=start, saved=saved)
    task = asyncio.create_task(listener.run())
    try:
        yield Polling(listener, index, diary, task)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_what_the_engine_tells_is_in_the_index() -> None:
    async with Engine().serving() as engine, polling(engine.url) as follower:
        await follower.until(lambda: follower.listener.state().connected)
        assert not follower.listener.state().complete, "nothing was told yet"
        assert follower.listener.position() is None
        engine.says(event(0, created()))
        engine.says(event(1, _CHAIN), event(2, stored(2, stored_block(3, [9]))))
        await follower.until(lambda: follower.held() == 2)
        state = follower.listener.state()
        engine.says(event(3, removed(2)))
        await follower.until(lambda: follower.held() == 1)
    assert (state.complete, state.last_seq, state.batches, state.unindexed) == (True, 2, 2, 1)
    assert (state.gaps, state.rejected, state.undecodable, state.restarts) == (0, 0, 0, 0)
    assert state.last_event_at is not None
    assert follower.diary.applied == [0, 2, 3]
    assert follower.diary.connections == [True]


async def test_an_idle_engine_is_asked_less_often_than_a_busy_one() -> None:
    async with Engine().serving() as engine, polling(engine.url) as follower:
        for number in range(50):
            engine.says(event(number, created() if number == 0 else removed(number)))
        began = asyncio.get_running_loop().time()
        await follower.until(lambda: not engine.answers)
        busy_s = asyncio.get_running_loop().time() - began
        await asyncio.sleep(0.5)
        engine.asked = 0
        await asyncio.sleep(1.0)
        idle = engine.asked
    assert 3 <= idle <= 11
    assert busy_s < 50 * 0.09, "a busy engine was asked no more often than an idle one"


async def test_a_long_answer_is_taken_in_order_and_lets_others_work_meanwhile() -> None:
    chains = [
        event(n, stored(2 * n or None, *(stored_block(2 * n + i, [2 * n + i] * 2) for i in (1, 2))))
        for n in range(2000)
    ]
    async with Engine().serving() as engine, polling(engine.url) as follower:
        engine.says(*chains)
        turns = 0

        def taken() -> bool:
            nonlocal turns
            turns += 0 < follower.index.blocks(WORKER) < 4000
            return follower.index.blocks(WORKER) == 4000

        await follower.until(taken)
        state = follower.listener.state()
    assert turns > 0
    assert (state.batches, state.last_seq, state.complete, state.gaps) == (1, 1999, True, 0)
    tokens = [token for number in range(1, 4001) for token in (number, number)]
    overlap = follower.index.match(hash_blocks(tokens, 2, Namespace()), 0.0)[WORKER]
    assert overlap.blocks == 4000


async def test_missing_events_leave_the_view_incomplete_until_a_restart() -> None:
    async with Engine().serving() as engine, polling(engine.url) as follower:
        engine.says(event(0, created()), event(1, _CHAIN))
        await follower.until(lambda: follower.held() == 2)
        engine.says(event(5, removed(2)))
        await follower.until(lambda: follower.held() == 1)
        assert follower.diary.gaps == [(Gap(2, 4), False)]
        state = follower.listener.state()
        assert (state.complete, state.gaps, state.unfilled_gaps) == (False, 1, 1)
        position = follower.listener.position()
        assert position is not None
        assert (position.seq, position.complete) == (5, False)
        engine.says(event(0, created()))
        await follower.until(lambda: follower.listener.state().restarts == 1)
        assert follower.held() == 0
        assert follower.listener.state().complete
        assert follower.diary.restarts == 1


async def test_an_engine_without_events_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "warmroute"):
        async with Engine(status=404).serving() as engine, polling(engine.url) as follower:
            await follower.until(lambda: engine.asked >= 4)
            assert not follower.listener.state().connected
            (record,) = caplog.records
            assert "answers 404" in record.getMessage()
            assert "event_buffer_max_size" in record.getMessage()
            engine.status = 200
            engine.says(event(0, created()), event(1, _CHAIN))
            await follower.until(lambda: follower.held() == 2)
            assert follower.listener.state().complete
    assert len(caplog.records) == 1


async def test_an_absent_engine_is_asked_again_less_and_less_often() -> None:
    engine = Engine()
    async with engine.serving():
        port = int(engine.url.rsplit(":", 1)[1])
    async with polling(engine.url) as follower:
        await asyncio.sleep(0.3)
        assert not follower.listener.state().connected
        async with engine.serving(port):
            engine.says(event(0, created()), event(1, _CHAIN))
            await follower.until(lambda: follower.held() == 2)
        await follower.until(lambda: not follower.listener.state().connected)
        assert follower.held() == 2, "an engine that does not answer has not lost its cache"
        assert not follower.listener.state().complete
        async with engine.serving(port):
            engine.says(event(2, removed(2)))
            await follower.until(lambda: follower.held() == 1)
            assert follower.listener.state().complete
    assert follower.diary.connections == [True, False, True]


@pytest.mark.parametrize("body", [b'{"error": "no"}', b"[{", b"\xff\xfe"])
async def test_an_answer_that_is_no_list_is_a_loss(body: bytes) -> None:
    async with Engine().serving() as engine, polling(engine.url) as follower:
        engine.says(event(0, created()), event(1, _CHAIN))
        await follower.until(lambda: follower.held() == 2)
        engine.answers.append(body)
        await follower.until(lambda: follower.listener.state().undecodable == 1)
        assert not follower.listener.state().complete
        assert len(follower.diary.undecodable) == 1
        engine.says(event(2, removed(2)))
        await follower.until(lambda: follower.held() == 1)


async def test_a_resync_forgets_what_cannot_be_had_again() -> None:
    async with Engine().serving() as engine, polling(engine.url) as follower:
        engine.says(event(0, created()), event(1, _CHAIN))
        await follower.until(lambda: follower.held() == 2)
        await follower.listener.resync()
        assert follower.held() == 0
        assert not follower.listener.state().complete
        engine.says(event(2, removed(1, 2)), event(3, _CHAIN))
        await follower.until(lambda: follower.held() == 2)
        assert not follower.listener.state().complete
        state = follower.listener.state()
        assert (state.gaps, state.restarts, state.resyncs) == (0, 0, 1)


async def test_a_saved_view_is_gone_on_with() -> None:
    async with Engine().serving() as engine:
        async with polling(engine.url) as before:
            engine.says(event(0, created()), event(1, _CHAIN))
            await before.until(lambda: before.held() == 2)
            position, blob = await before.listener.snapshot()
        assert position is not None
        async with polling(engine.url, position, blob) as after:
            await after.until(lambda: after.listener.state().complete)
            assert after.held() == 2
            engine.says(event(2, removed(2)))
            await after.until(lambda: after.held() == 1)
            assert after.diary.dropped == []
        async with polling(engine.url, position, blob) as late:
            await late.until(lambda: late.held() == 2)
            engine.says(event(3, removed(77)))
            await late.until(lambda: late.held() == 0)
            await late.until(lambda: bool(late.diary.dropped))
            assert "event 3, not 2" in late.diary.dropped[0]
            assert not late.listener.state().complete


async def test_a_spoilt_saved_view_is_dropped() -> None:
    async with Engine().serving() as engine, polling(engine.url, Position(5, 0), b"no dump") as follower:
        await follower.until(lambda: bool(follower.diary.dropped))
        engine.says(event(0, created()), event(1, _CHAIN))
        await follower.until(lambda: follower.held() == 2)
        assert follower.listener.state().complete


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5", "http://", "127.0.0.1:80", "http://[::1", "http://h:0"])
async def test_what_is_no_address_is_told(endpoint: str) -> None:
    listener = PollingListener(WORKER, EventSource(endpoint), real_index())
    with pytest.raises(ConfigError, match="write http://HOST:PORT"):
        await listener.run()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://h:8000", "http://h:8000/kv_cache_events"),
        ("http://h:8000/", "http://h:8000/kv_cache_events"),
        ("https://[::1]:8000", "https://[::1]:8000/kv_cache_events"),
        ("http://h:8000/kv_cache_events", "http://h:8000/kv_cache_events"),
        ("http://h:8000/proxy/events", "http://h:8000/proxy/events"),
    ],
)
def test_the_path_need_not_be_said(endpoint: str, url: str) -> None:
    assert polled_url(endpoint) == url
