"""What becomes of a request whose worker does not answer it, and of the worker."""

import asyncio
from collections import Counter

import aiohttp
import pytest

from gateway.routed import Answering, Routed, broken, ready, routed, until
from relay.served import working
from warmroute.admission import FailoverOptions
from warmroute.gateway.relay import RelayOptions
from warmroute.worker import CircuitState, Worker

NOBODY = "http://127.0.0.1:9"
OFTEN = FailoverOptions(slow_start_s=0.0, retry_floor_per_s=1e6)


def state(worker: Worker) -> CircuitState:
    return worker.circuit.state(asyncio.get_running_loop().time())


async def answered(r: Routed, count: int) -> Counter[int]:
    """The statuses of so many requests, one after the other."""
    return Counter([(await r.post())[0] for _ in range(count)])


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_another_worker_answers_for_one_that_cannot(status: int) -> None:
    unable, able = Answering(status), Answering()
    async with working(unable.answer) as first, working(able.answer) as second, routed(first, second) as r:
        for _ in range(10):
            got, _, headers = await r.post()
            assert (got, headers["x-warmroute-worker"]) == (200, r.workers[1].name)
        assert able.came == 10
        assert unable.came >= 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_where_nobody_else_is_left_the_workers_own_words_go_to_the_client(status: int) -> None:
    own = {"retry-after": "7", "x-own": "yes"}
    worker = Answering(status, headers=own, body='{"error": {"message": "the engine says so"}}')
    async with working(worker.answer) as url, routed(url) as r:
        got, body, headers = await r.post()
        assert (got, body) == (status, worker.body)
        assert (headers["retry-after"], headers["x-own"]) == ("7", "yes")
        assert headers["x-warmroute-worker"] == r.workers[0].name
        assert "x-warmroute-refused" not in headers
        assert worker.came == 1


async def test_of_several_that_are_busy_the_last_one_is_heard() -> None:
    first, second = Answering(429, body='"first"'), Answering(503, body='"second"')
    async with working(first.answer) as one, working(second.answer) as two, routed(one, two) as r:
        got, body, headers = await r.post()
        assert (got, body) in ((429, '"first"'), (503, '"second"'))
        named = next(worker for worker in r.workers if worker.name == headers["x-warmroute-worker"])
        assert (named is r.workers[0]) == (got == 429)
        assert (first.came, second.came) == (1, 1)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 501])
async def test_other_errors_are_answers_and_tried_nowhere_else(status: int) -> None:
    both = Answering(status), Answering(status)
    async with working(both[0].answer) as one, working(both[1].answer) as two, routed(one, two) as r:
        assert (await r.post())[0] == status
        assert both[0].came + both[1].came == 1


async def test_a_worker_that_says_how_long_it_is_busy_is_left_alone_so_long() -> None:
    busy, idle = Answering(503, headers={"retry-after": "20"}), Answering()
    async with working(busy.answer) as first, working(idle.answer) as second, routed(first, second) as r:
        assert await answered(r, 30) == {200: 30}
        assert busy.came == 1
        left_alone_s = r.workers[0].circuit.left_alone_until() - asyncio.get_running_loop().time()
        assert 10 < left_alone_s <= 20
        assert state(r.workers[0]) is CircuitState.CLOSED


async def test_all_are_busy_and_yet_each_request_is_tried_once() -> None:
    busy = Answering(429, headers={"retry-after": "20"})
    async with working(busy.answer) as first, routed(first, options=OFTEN) as r:
        assert await answered(r, 10) == {429: 10}
        assert busy.came == 10
        assert r.router.table.last_resorts == 9


async def test_a_broken_worker_is_passed_over_and_then_set_aside() -> None:
    able = Answering()
    async with broken() as (bad, came), working(able.answer) as good, routed(bad, good, options=OFTEN) as r:
        assert await answered(r, 40) == {200: 40}
        assert state(r.workers[0]) is not CircuitState.CLOSED
        assert len(came) <= 4, "three failures, and one try"
        assert r.looked_at[0] is r.workers[0]
        assert r.suspected == []


async def test_a_worker_that_answers_500_each_time_is_set_aside() -> None:
    bad, good = Answering(500), Answering()
    async with working(bad.answer) as first, working(good.answer) as second, routed(first, second) as r:
        statuses = await answered(r, 40)
        assert 1 <= statuses[500] <= 4
        assert state(r.workers[0]) is not CircuitState.CLOSED


async def test_nobody_listens_there() -> None:
    able = Answering()
    async with working(able.answer) as good, routed(NOBODY, good) as r:
        assert await answered(r, 20) == {200: 20}
        assert set(r.suspected) == {r.workers[0]}
        assert r.proxy.budget.spent == 0, "nobody bore any load, so that costs nothing"


async def test_a_death_in_the_middle_is_told_not_tried_again_and_counted() -> None:
    able = Answering()
    async with broken(most_bytes=10) as (bad, came), working(able.answer) as good, routed(bad, options=OFTEN) as r:
        for _ in range(3):
            with pytest.raises(aiohttp.ClientPayloadError):
                await r.post()
        assert len(came) == 3
        assert state(r.workers[0]) is CircuitState.OPEN
        ready(r.router, good)
        assert (await r.post())[0] == 200


async def test_one_try_at_a_time_and_its_answer_closes() -> None:
    sick, well = Answering(500), Answering()
    async with working(sick.answer) as first, working(well.answer) as second, routed(first, second) as r:
        circuit = r.workers[0].circuit
        while state(r.workers[0]) is CircuitState.CLOSED:
            await r.post()
        circuit.retry_at = asyncio.get_running_loop().time()
        sick.status, before = 200, sick.came
        sick.open.clear()
        tasks = [asyncio.create_task(r.post()) for _ in range(20)]
        await until(lambda: sick.under_way == 1 and well.came >= 19)
        assert sick.came == before + 1
        sick.open.set()
        assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}
        assert state(r.workers[0]) is CircuitState.CLOSED


async def test_a_fleet_that_fails_as_a_whole_gets_a_fifth_more_than_was_asked() -> None:
    options = FailoverOptions(slow_start_s=0.0, retry_share=0.2, retry_floor_per_s=0.0)
    async with (
        broken() as (one, first),
        broken() as (two, second),
        broken() as (three, third),
        routed(one, two, three, options=options) as r,
    ):
        assert await answered(r, 200) == {502: 200}
        assert len(first) + len(second) + len(third) <= 240
        assert r.proxy.budget.refused >= 160


async def test_tries_are_bounded_and_each_worker_is_tried_once() -> None:
    async with (
        broken() as (one, first),
        broken() as (two, second),
        broken() as (three, third),
        routed(one, two, three, options=OFTEN, max_attempts=2) as r,
    ):
        status, body, headers = await r.post()
        assert (status, headers["x-warmroute-refused"]) == (502, "workers-exhausted")
        assert len(first) + len(second) + len(third) == 2
        assert "127.0.0.1" not in body


async def test_silence_sets_aside_at_once_and_another_answers() -> None:
    silent, able = Answering(), Answering()
    silent.open.clear()
    limits = RelayOptions(first_byte_timeout_s=1.0)
    async with (
        working(silent.answer) as first,
        working(able.answer) as second,
        routed(first, second, relay_options=limits) as r,
    ):
        statuses = Counter(status for status, _, _ in await asyncio.gather(*(r.post() for _ in range(20))))
        assert statuses == {200: 20}
        assert state(r.workers[0]) is CircuitState.OPEN
        came = silent.came
        assert await answered(r, 10) == {200: 10}
        assert silent.came == came
        await until(lambda: silent.under_way == 0)


async def test_a_worker_that_came_up_gets_its_share_slowly() -> None:
    old, new = Answering(), Answering()
    options = FailoverOptions(slow_start_s=60.0)
    async with working(old.answer) as first, working(new.answer) as second, routed(first, options=options) as r:
        old.open.clear()
        new.open.clear()
        tasks = [asyncio.create_task(r.post()) for _ in range(20)]
        await until(lambda: old.under_way == 20)
        worker = ready(r.router, second)
        table = r.router.table
        table.set_status(worker, r.workers[0].status.DOWN)
        table.set_status(worker, r.workers[0].status.READY, came_up_at=asyncio.get_running_loop().time())
        tasks += [asyncio.create_task(r.post()) for _ in range(20)]
        await until(lambda: old.under_way + new.under_way == 40)
        assert 1 <= new.under_way <= 3, "not all twenty, though it has nothing to do"
        old.open.set()
        new.open.set()
        await asyncio.gather(*tasks)
