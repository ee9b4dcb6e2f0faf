"""The threads on which lanes are followed, apart from the router's own loop.

Each thread runs one asyncio loop for many lanes; a lane always comes to the same thread, so that what is said of it
keeps its order, also from one listener to the next. Decoding and applying events, and waiting for replays, never hold
the loop that carries requests.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from warmroute.kv_event.listener import EventSource, Listener, Position
from warmroute.kv_event.polling import PollingListener
from warmroute.kv_event.subscriber import Subscription
from warmroute.kv_event.subscription_state import SubscriptionObserver, SubscriptionState
from warmroute.prefix_index import PrefixIndex

_T = TypeVar("_T")

NewLoop = Callable[[], asyncio.AbstractEventLoop]

THREAD_NAME = "kv-events"

_NICENESS = 10
_MOST_THREADS = 4


def threads_for(cores: int) -> int:
    """How many threads follow KV events where nobody says: one core is left to the loop that carries requests."""
    return max(1, min(cores - 1, _MOST_THREADS))


def open_listener(
    lane: int,
    source: EventSource,
    index: PrefixIndex,
    observer: SubscriptionObserver,
    start: Position | None = None,
    saved: bytes | None = None,
) -> Listener:
    """The listener for the way in which a source publishes: asked over HTTP, or subscribed to over ZeroMQ."""
    if source.endpoint.startswith(("http://", "https://")):
        return PollingListener(lane, source, index, observer, start=start, saved=saved)
    return Subscription(lane, source, index, observer, start=start, saved=saved)


class Listening:
    """A listener at work on its thread. Every method is for the loop of the one who began it."""

    def __init__(self, listener: Listener, loop: asyncio.AbstractEventLoop, turn: asyncio.Lock) -> None:
        self._listener = listener
        self._loop = loop
        self._turn = turn
        self._task: asyncio.Task[None] | None = None
        self._end: Future[BaseException | None] = Future()
        self._end.set_running_or_notify_cancel()  # from now on nobody who waits for it can cancel it
        loop.call_soon_threadsafe(self._begin)

    def state(self) -> SubscriptionState:
        """A snapshot of the listener's counters."""
        return self._listener.state()

    def position(self) -> Position | None:
        """The last batch in the index."""
        return self._listener.position()

    @property
    def ended(self) -> bool:
        """Whether the listener has stopped, asked to or not."""
        return self._end.done()

    def failure(self) -> BaseException | None:
        """What the listener failed with; None while it runs, and when it was asked to stop."""
        return self._end.result() if self._end.done() else None

    def stop(self) -> None:
        """Asks the listener to stop. What it has begun with the index is still finished."""
        if not self.ended:
            self._loop.call_soon_threadsafe(self._cancel)

    async def wait(self) -> None:
        """Returns when the listener has stopped: nothing of it reaches the index any more."""
        await asyncio.wrap_future(self._end)

    async def snapshot(self) -> tuple[Position | None, bytes]:
        """The position and the lane's blocks at it; no position when the listener has stopped."""
        if self.ended:
            return None, b""
        return await self._ask(self._listener.snapshot())

    async def resync(self) -> None:
        """Learns the lane anew; nothing when the listener has stopped."""
        if not self.ended:
            await self._ask(self._listener.resync())

    async def _ask(self, call: Coroutine[Any, Any, _T]) -> _T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._finish)

    async def _run(self) -> None:
        async with self._turn:
            await self._listener.run()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _finish(self, task: "asyncio.Task[None]") -> None:
        self._end.set_result(None if task.cancelled() else task.exception())


class _LoopThread:
    """One thread with its loop; the loop ends, and with it every task on it, at `stop`."""

    def __init__(self, name: str, new_loop: NewLoop) -> None:
        self._runner = asyncio.Runner(loop_factory=new_loop)
        self.loop = self._runner.get_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        # Where cores are short the loop that carries requests comes first: with equal rights, a flood of events on the
        # same core kept it waiting for 30 ms (bench/kv_ingest.py).
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        with self._runner:
            self._runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    async def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopped.set)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)


class Listeners:
    """Puts listeners on at most `threads` threads, each begun when it is first needed."""

    def __init__(self, threads: int, new_loop: NewLoop = asyncio.new_event_loop) -> None:
        self._new_loop = new_loop
        self._threads: list[_LoopThread | None] = [None] * threads
        self._turns: dict[int, asyncio.Lock] = {}

    def listen(self, lane: int, listener: Listener) -> Listening:
        """Begins to follow a lane, once the one who followed it before, if any, has stopped."""
        return Listening(listener, self._loop_of(lane), self._turns.setdefault(lane, asyncio.Lock()))

    def forget(self, lane: int) -> None:
        """The lane will not be listened to again."""
        self._turns.pop(lane, None)

    async def close(self) -> None:
        """Stops every listener and ends the threads."""
        threads = [thread for thread in self._threads if thread is not None]
        self._threads = [None] * len(self._threads)
        self._turns.clear()
        await asyncio.gather(*(thread.stop() for thread in threads))

    def _loop_of(self, lane: int) -> asyncio.AbstractEventLoop:
        number = lane % len(self._threads)
        thread = self._threads[number]
        if thread is None:
            thread = self._threads[number] = _LoopThread(f"{THREAD_NAME}-{number}", self._new_loop)
        return thread.loop
