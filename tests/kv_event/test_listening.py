"""Listeners at work on threads of their own, apart from the loop that asks for them."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from kv_event.publisher import Publisher
from kv_event.subscribed import Diary, block, holding
from kv_event.wire_format import cleared, stored
from warmroute.kv_event import (
    ApplyReport,
    EventSource,
    Listeners,
    Position,
    Subscription,
    SubscriptionState,
    Unobserved,
    open_listener,
)
from warmroute.kv_event.listening import THREAD_NAME
from warmroute.kv_event.polling import PollingListener
from warmroute.prefix_index import PrefixIndex


@dataclass
class Idler:
    """A listener that does nothing but say where it is."""

    leaving_s: float = 0.0
    threads: list[str] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)
    alone: threading.Lock = field(default_factory=threading.Lock)
    met_another: bool = False

    async def run(self) -> None:
        self.met_another |= not self.alone.acquire(blocking=False)
        self.threads.append(threading.current_thread().name)
        self.began.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(self.leaving_s)
            self.alone.release()

    def state(self) -> SubscriptionState:
        return SubscriptionState()

    def position(self) -> Position | None:
        return None

    async def snapshot(self) -> tuple[Position | None, bytes]:
        self.threads.append(threading.current_thread().name)
        return Position(7, 7), b"blocks"

    async def resync(self) -> None:
        self.threads.append(threading.current_thread().name)


@dataclass
class Failing(Idler):
    async def run(self) -> None:
        raise ZeroDivisionError


@asynccontextmanager
async def listeners(threads: int = 2) -> AsyncIterator[Listeners]:
    made = Listeners(threads)
    try:
        yield made
    finally:
        await made.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


async def until(condition: Callable[[], bool], limit_s: float = 20) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.002)


async def test_a_lane_always_comes_to_the_same_thread_and_threads_begin_when_needed() -> None:
    idlers = {lane: Idler() for lane in (0, 1, 2)}
    async with listeners(2) as made:
        assert threads_alive() == 0
        first = made.listen(0, idlers[0])
        await until(idlers[0].began.is_set)
        assert threads_alive() == 1
        rest = [made.listen(lane, idlers[lane]) for lane in (1, 2)]
        await until(lambda: all(idler.began.is_set() for idler in idlers.values()))
        assert threads_alive() == 2
        for listening in (first, *rest):
            assert await listening.snapshot() == (Position(7, 7), b"blocks")
            await listening.resync()
        names = [set(idler.threads) for idler in idlers.values()]
        assert names == [{f"{THREAD_NAME}-0"}, {f"{THREAD_NAME}-1"}, {f"{THREAD_NAME}-0"}]
        await made.close()
        assert all(listening.ended and listening.failure() is None for listening in (first, *rest))


def threads_alive() -> int:
    return sum(thread.name.startswith(THREAD_NAME) for thread in threading.enumerate())


async def test_who_follows_a_lane_next_waits_until_the_one_before_has_left() -> None:
    idler = Idler(leaving_s=0.05)
    async with listeners() as made:
        first = made.listen(0, idler)
        await until(idler.began.is_set)
        first.stop()
        second = made.listen(0, idler)  # stopped while it waits for the first
        second.stop()
        third = made.listen(0, idler)
        await first.wait()
        await second.wait()
        await until(lambda: len(idler.threads) == 2)
        assert not idler.met_another
        third.stop()
        await third.wait()


async def test_what_a_listener_failed_with_is_told_and_asking_it_does_nothing() -> None:
    async with listeners() as made:
        listening = made.listen(0, Failing())
        await listening.wait()
        assert isinstance(listening.failure(), ZeroDivisionError)
        assert await listening.snapshot() == (None, b"")
        await listening.resync()
        listening.stop()


async def test_the_way_of_publishing_chooses_the_listener() -> None:
    index, log = PrefixIndex(), Unobserved()
    assert isinstance(open_listener(0, EventSource("http://127.0.0.1:1"), index, log), PollingListener)
    assert isinstance(open_listener(0, EventSource("tcp://127.0.0.1:1"), index, log), Subscription)


@dataclass
class Order(Diary):
    """What it was told, by lane, and on which threads."""

    by_lane: dict[int, list[int]] = field(default_factory=dict)
    threads: set[str] = field(default_factory=set)

    def batches_applied(self, worker: int, seqs: Sequence[int], report: ApplyReport) -> None:
        self.by_lane.setdefault(worker, []).extend(seqs)
        self.threads.add(threading.current_thread().name)


async def test_floods_of_several_lanes_are_taken_in_whole_and_in_order_beside_the_loop() -> None:
    """The loop that asks publishes and looks up meanwhile, so it is not stalled if each of its ticks comes soon."""
    lanes, batches = range(3), 1_500
    index, order = PrefixIndex(), Order()
    async with listeners(2) as made, AsyncExitStack() as stack:
        publishers = [Publisher() for _ in lanes]
        for lane, publisher in enumerate(publishers):
            await stack.enter_async_context(publisher.serve())
            index.add_worker(lane, 0)
            source = EventSource(publisher.endpoint, publisher.replay_endpoint)
            made.listen(lane, Subscription(lane, source, index, order))
        ticks = [asyncio.get_running_loop().time()]
        for number in range(batches):
            for lane, publisher in enumerate(publishers):
                await publisher.publish(long_chain(lane, number), lose=number % 499 == 498)
            await asyncio.sleep(0)
            ticks.append(asyncio.get_running_loop().time())
        for publisher in publishers:
            await publisher.publish(block(1))
        whole = list(range(batches + 1))
        await until(lambda: all(order.by_lane.get(lane, [])[-1:] == [batches] for lane in lanes))
        assert all(order.by_lane[lane] == whole for lane in lanes)
        assert all(index.blocks(lane) == batches * 8 + 1 for lane in lanes)
        assert order.threads == {f"{THREAD_NAME}-0", f"{THREAD_NAME}-1"}
    longest = max(later - earlier for earlier, later in itertools.pairwise(ticks))
    assert longest < 0.5, "generous: what is excluded is a loop that waits for a replay or for a slice of each lane"


def long_chain(lane: int, number: int) -> dict[str, object]:
    """Eight blocks that no other batch has."""
    first = (number + 1) * 8
    return stored(list(range(first, first + 8)), [lane, *range(first, first + 15)])


@pytest.mark.parametrize("stop_first", [True, False], ids=["stopped", "closed"])
async def test_an_end_under_load_is_prompt_and_nothing_is_applied_after_it(stop_first: bool) -> None:
    publisher, index, order = Publisher(), PrefixIndex(), Order()
    index.add_worker(0, 0)
    loop = asyncio.get_running_loop()

    async def flood() -> None:
        for number in itertools.count():
            await publisher.publish(block(number % 1000), cleared())
            if number % 50 == 0:
                await asyncio.sleep(0)

    async with publisher.serve(), listeners() as made:
        listening = made.listen(0, Subscription(0, EventSource(publisher.endpoint), index, order))
        flooding = asyncio.create_task(flood())
        await until(lambda: len(order.by_lane.get(0, ())) > 200)
        began = loop.time()
        if stop_first:
            listening.stop()
            await listening.wait()
        else:
            await made.close()
        assert listening.ended
        applied = len(order.by_lane[0])
        assert loop.time() - began < 2.0
        await asyncio.sleep(0.05)
        assert len(order.by_lane[0]) == applied
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)


async def test_an_end_while_a_replay_is_awaited_is_prompt() -> None:
    publisher, index = Publisher(answers_replays=False), PrefixIndex()
    index.add_worker(0, 0)
    async with publisher.serve(), listeners() as made:
        source = EventSource(publisher.endpoint, publisher.replay_endpoint)
        listening = made.listen(0, Subscription(0, source, index, replay_deadline_s=60.0))
        await until(lambda: publisher.replays == [0])
        async with asyncio.timeout(2):
            await made.close()
        assert listening.ended


async def test_blocks_and_position_are_asked_for_from_the_routers_loop_under_load() -> None:
    publisher, index = Publisher(), PrefixIndex()
    for lane in (0, 1):
        index.add_worker(lane, 0)
    async with publisher.serve(), listeners() as made:
        listening = made.listen(0, Subscription(0, EventSource(publisher.endpoint, publisher.replay_endpoint), index))
        await until(lambda: listening.state().complete)
        for number in range(600):
            await publisher.publish(block(number))
            if number % 60 == 0:
                position, saved = await listening.snapshot()
                index.restore(1, saved)
                known = -1 if position is None else position.seq
                assert holding(index, 1, range(number + 1)) == list(range(known + 1))
        await until(lambda: listening.state().last_seq == 599)
        position = listening.position()
        assert position is not None
        assert position.seq == 599
