"""Several simulations side by side, each in a process of its own.

    results = run_many([RunTask(NamedWorkload("multi-turn"), "random", seed) for seed in (1, 2)], jobs=2)

A simulation is one thread of Python, so processes are what uses a machine's cores. They are spawned, not forked: the
caller may have threads. What comes back depends on the task alone, never on how many ran beside it.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.queues import SimpleQueue
from typing import TypeVar

from warmroute.errors import ConfigError, WarmrouteError
from warmroute.simulator.task import Task

# How often news of progress is taken; a result is taken when it is there.
_LOOK_S = 0.1

_News = tuple[int, str, int, int]
_ResultT = TypeVar("_ResultT")


class RunFailed(WarmrouteError):
    """A task raised an error, or its process ended. The message names it; the cause is chained."""


class Watcher:
    """Hears of progress; this one does not care. Tasks are named by their positions."""

    def progress(self, position: int, stage: str, sent: int, total: int) -> None:
        """A task is under way: its stage, and how many of that stage's requests have been sent, of how many."""

    def ended(self, position: int) -> None:
        """A task has its result."""


def run_many(
    tasks: Sequence[Task[_ResultT]], jobs: int | None = None, watcher: Watcher | None = None
) -> list[_ResultT]:
    """The results of all tasks, in their order; `jobs` at once, by default as many as there are cores.

    RunFailed names the first task that fails; a ConfigError stays what it is. Then, as with KeyboardInterrupt, all
    processes are ended. One task at a time is done in this process.
    """
    watching = watcher or Watcher()
    at_once = min(jobs or os.cpu_count() or 1, len(tasks))
    if at_once <= 1:
        return [_do_here(position, task, watching) for position, task in enumerate(tasks)]
    context = multiprocessing.get_context("spawn")
    news: SimpleQueue[_News] = context.SimpleQueue()
    pool = ProcessPoolExecutor(at_once, context, _begin, (news,))
    others = multiprocessing.active_children()
    try:
        with _interrupts_held():
            places = {pool.submit(_do, position, task): position for position, task in enumerate(tasks)}
        _follow(places, tasks, news, watching)
        return [future.result() for future in places]
    except BaseException:
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _follow(
    places: "dict[Future[_ResultT], int]",
    tasks: Sequence[Task[_ResultT]],
    news: "SimpleQueue[_News]",
    watcher: Watcher,
) -> None:
    """Tell the watcher until all have ended; the error of the first that fails."""
    left = dict(places)
    while left:
        done, _ = wait(left, _LOOK_S, FIRST_COMPLETED)
        while not news.empty():
            watcher.progress(*news.get())
        for future in sorted(done, key=places.__getitem__):
            position = left.pop(future)
            error = future.exception()
            if error is not None:
                raise _failure(tasks[position], error) from error
            watcher.ended(position)


def _do_here(position: int, task: Task[_ResultT], watcher: Watcher) -> _ResultT:
    try:
        result = task.perform(lambda stage, sent, total: watcher.progress(position, stage, sent, total))
    except Exception as error:
        raise _failure(task, error) from error
    watcher.ended(position)
    return result


def _failure(task: Task[object], error: BaseException) -> WarmrouteError:
    if isinstance(error, ConfigError):
        return error
    if isinstance(error, BrokenProcessPool):
        return RunFailed(f"{task}: a process was ended from outside; is there enough memory?")
    kind = "" if isinstance(error, WarmrouteError) else f"{type(error).__name__}: "
    return RunFailed(f"{task}: {kind}{error}")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started meanwhile, for good: whoever started them ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# What follows runs in the processes.

_told_to: "list[SimpleQueue[_News]]" = []


def _begin(news: "SimpleQueue[_News]") -> None:
    _told_to.append(news)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot end anybody."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])
    os._exit(1)


def _do(position: int, task: Task[_ResultT]) -> _ResultT:
    (news,) = _told_to
    return task.perform(lambda stage, sent, total: news.put((position, stage, sent, total)))
