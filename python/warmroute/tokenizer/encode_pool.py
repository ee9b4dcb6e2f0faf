"""Threads that encode, and the prompts that wait for one."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Self, TypeVar

ResultT = TypeVar("ResultT")


class _Job(Generic[ResultT]):
    """What is to be run, held no longer than that: the executor keeps what was cancelled in its queue until a thread
    comes to it, and with it a prompt of megabytes."""

    def __init__(self, run: Callable[[], ResultT]) -> None:
        self._run: Callable[[], ResultT] | None = run

    def __call__(self) -> ResultT:
        assert self._run is not None, "what was cancelled is not run"
        return self._run()

    def let_go(self) -> None:
        self._run = None


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
        # Threads give back by themselves: the loop that a job came from may be closed when it ends.
        self._counting = threading.Lock()

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
        held = _Job(job)
        with self._counting:
            self._taken += 1
        try:
            running = self._executor.submit(held)
        except RuntimeError:  # closed
            self._give_back()
            raise

        def ended(_: "Future[ResultT]") -> None:
            held.let_go()
            self._give_back()

        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    def _give_back(self) -> None:
        with self._counting:
            self._taken -= 1

    def close(self) -> None:
        """Wait for what runs; nobody waits for it any more, so what is in the queue is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
