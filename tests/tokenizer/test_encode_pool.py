"""The threads that encode, when what they do is given up, goes wrong or outlives whoever asked."""

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Callable

import pytest

from warmroute.tokenizer import EncodePool


class Large:
    """Stands for a prompt of megabytes."""


def holding(prompt: Large) -> Callable[[], int]:
    return lambda: id(prompt)


async def settled(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)


async def test_what_was_given_up_in_the_queue_is_not_kept_while_the_threads_are_busy() -> None:
    gate = threading.Event()
    with EncodePool(1, backlog=8) as pool:
        running = asyncio.ensure_future(pool.run(gate.wait))
        kept = []
        for _ in range(50):
            prompts = [Large() for _ in range(4)]
            kept += [weakref.ref(prompt) for prompt in prompts]
            jobs = [asyncio.ensure_future(pool.run(holding(prompt))) for prompt in prompts]
            await asyncio.sleep(0)
            assert pool.waiting == 4
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            del prompts, jobs, job
        gc.collect()
        alive = sum(ref() is not None for ref in kept)
        gate.set()
        await running
    assert alive <= 4  # of 200; the loop may still hold the last round


async def test_a_loop_that_is_closed_before_its_job_ends_takes_no_place_for_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = threading.Event()
    with EncodePool(1, backlog=1) as pool, caplog.at_level(logging.DEBUG):

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await pool.run(gate.wait)

        other = threading.Thread(target=asyncio.run, args=[give_up()])
        other.start()
        await asyncio.to_thread(other.join)
        gate.set()
        assert await pool.run(lambda: 7) == 7
        await settled(lambda: not pool.is_full and pool.waiting == 0)
        both = [asyncio.ensure_future(pool.run(lambda: 1)) for _ in range(2)]
        await asyncio.sleep(0)
        assert pool.waiting <= 1
        assert await asyncio.gather(*both) == [1, 1]
    assert [record for record in caplog.records if record.name == "concurrent.futures"] == []


async def test_what_a_job_raises_reaches_who_asked_and_gives_its_place_back() -> None:
    class Panic(BaseException):
        pass

    def panic() -> None:
        raise Panic

    with EncodePool(1, backlog=0) as pool:
        for _ in range(3):
            with pytest.raises(Panic):
                await pool.run(panic)
            await settled(lambda: not pool.is_full)
        assert await pool.run(lambda: 7) == 7


async def test_places_are_counted_right_through_thousands_of_jobs_half_of_which_are_given_up() -> None:
    with EncodePool(2, backlog=5_000) as pool:
        jobs = [asyncio.ensure_future(pool.run(lambda: 1)) for _ in range(4_000)]
        await asyncio.sleep(0)
        for job in jobs[::2]:
            job.cancel()
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert all(result == 1 for result in done[1::2])
        await settled(lambda: pool.waiting == 0)
        assert pool._taken == 0


async def test_a_closed_pool_says_so_and_counts_nothing() -> None:
    pool = EncodePool(1, backlog=0)
    pool.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        await pool.run(lambda: 1)
    assert not pool.is_full


async def test_what_waits_when_the_pool_is_closed_is_dropped_and_what_runs_is_told() -> None:
    gate, begun = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        gate.wait()
        return "told"

    pool = EncodePool(1)
    running = asyncio.ensure_future(pool.run(work))
    queued = asyncio.ensure_future(pool.run(lambda: "never"))
    await asyncio.to_thread(begun.wait)
    closing = asyncio.ensure_future(asyncio.to_thread(pool.close))
    await asyncio.sleep(0.01)
    gate.set()
    await closing
    assert await running == "told"
    with pytest.raises(asyncio.CancelledError):
        await queued
