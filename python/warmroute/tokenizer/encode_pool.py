"""Threads that encode, and the prompts that wait for one."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar

ResultT = TypeVar("ResultT")


class EncodePool:
    """At most `threads` prompts are encoded at once and at most `backlog` more wait.

    A job that is cancelled while it waits is not run. One that runs cannot be stopped: it keeps its thread until it
    ends, and only then is the thread given to the next. A thread takes the next job by itself: were it given one by the
    loop, as many jobs as threads would be done in each round of the loop, which takes 20 ms when it is busy.
    """

    def __init__(self, threads: int, backlog: int = 256) -> None:
        self._executor = ThreadPoolExecutor(threads, "tokenize")
        self._threads = threads
        self._backlog = backlog
        self._taken = 0

    @property
    def is_full(self) -> bool:
        """Whether another job would have to wait behind as many as may wait."""
        return self._taken >= self._threads + self._backlog

    @property
    def waiting(self) -> int:
        """Jobs that have no thread yet."""
        return max(0, self._taken - self._threads)

    async def run(self, job: Callable[[], ResultT]) -> ResultT:
        """Run `job` in a thread; what it raises is raised here. Ask `is_full` before."""
        loop = asyncio.get_running_loop()
        running = self._executor.submit(job)
        self._taken += 1

        def ended(_: "Future[ResultT]") -> None:
            loop.call_soon_threadsafe(self._give_back)

        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    def _give_back(self) -> None:
        self._taken -= 1

    def close(self) -> None:
        """Wait for what runs; nobody waits for it any more, so what is in the queue is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
