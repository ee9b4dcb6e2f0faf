"""Threads that encode, and the prompts that wait for one."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self, TypeVar

ResultT = TypeVar("ResultT")


class EncodePool:
    """At most `threads` prompts are encoded at once and at most `backlog` more wait.

    A job that is cancelled while it waits is dropped and leaves nothing behind. One that runs cannot be stopped: it
    keeps its thread until it ends, and only then is the thread given to the next.
    """

    def __init__(self, threads: int, backlog: int = 256) -> None:
        self._executor = ThreadPoolExecutor(threads, "tokenize")
        self._free = asyncio.Semaphore(threads)
        self._backlog = backlog
        self.waiting = 0

    @property
    def is_full(self) -> bool:
        """Whether another job would have to wait behind as many as may wait."""
        return self.waiting >= self._backlog

    async def run(self, job: Callable[[], ResultT]) -> ResultT:
        """Run `job` in a thread; what it raises is raised here. Ask `is_full` before."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        loop = asyncio.get_running_loop()
        running = self._executor.submit(job)

        def give_back(_: "Future[ResultT]") -> None:
            loop.call_soon_threadsafe(self._free.release)

        running.add_done_callback(give_back)
        return await asyncio.wrap_future(running)

    def close(self) -> None:
        """Wait for what runs; nobody waits for it any more, so what is in the queue is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
