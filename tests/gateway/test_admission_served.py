"""While every worker is full requests wait in the router, and each goes on as soon as there is room for it."""

import asyncio
import contextlib
import json
from collections import Counter

import pytest

from gateway.routed import BODY, Answer, Answering, Routed, routed, until
from relay.served import working
from warmroute.admission import FailoverOptions
from warmroute.worker import WorkerFacts, WorkerSpec, WorkerStatus

ONE = FailoverOptions(slow_start_s=0.0, max_requests=1)


def waiting(r: Routed) -> int:
    assert r.proxy.room is not None
    return len(r.proxy.room)


async def filled(r: Routed, engine: Answering, count: int = 1) -> list[asyncio.Task[Answer]]:
    """Requests that the engine holds."""
    engine.open.clear()
    tasks = [asyncio.create_task(r.post()) for _ in range(count)]
    await until(lambda: engine.under_way == count)
    return tasks


async def test_no_more_come_to_a_worker_than_it_runs_and_all_are_answered() -> None:
    engine = Answering()
    async with working(engine.answer) as url, routed(url, options=FailoverOptions(max_requests=4)) as r:
        engine.open.clear()
        tasks = [asyncio.create_task(r.post()) for _ in range(100)]
        await until(lambda: waiting(r) == 96 and engine.under_way == 4)
        engine.open.set()
        answers = await asyncio.gather(*tasks)
        assert Counter(status for status, _, _ in answers) == {200: 100}
        assert engine.most_under_way == 4
        assert r.proxy.room is not None
        assert r.proxy.room.counts.ends["routed"] == 96


async def test_who_waits_goes_where_room_is_first() -> None:
    slow, quick = Answering(), Answering()
    async with working(slow.answer) as first, working(quick.answer) as second, routed(first, second, options=ONE) as r:
        slow.open.clear()
        quick.open.clear()
        tasks = [asyncio.create_task(r.post()) for _ in range(5)]
        await until(lambda: waiting(r) == 3)
        quick.open.set()
        await until(lambda: quick.came == 4 and quick.under_way == 0)
        assert (slow.came, waiting(r)) == (1, 0)
        slow.open.set()
        assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}


async def test_an_urgent_request_goes_before_those_that_came_earlier() -> None:
    engine, order = Answering(), list[str]()
    async with working(engine.answer) as url, routed(url, options=ONE) as r:
        held = await filled(r, engine)

        async def ask(name: str, priority: str) -> None:
            await r.post(x_warmroute_priority=priority)
            order.append(name)

        names = [("late", "7"), ("usual", "no number"), ("urgent", "-3")]
        tasks = []
        for number, (name, priority) in enumerate(names):
            tasks.append(asyncio.create_task(ask(name, priority)))
            await until(lambda number=number: waiting(r) == number + 1)  # type: ignore[misc]
        engine.open.set()
        await asyncio.gather(*held, *tasks)
        assert order == ["urgent", "usual", "late"]


async def test_a_tenant_that_fills_the_queue_does_not_keep_others_out() -> None:
    engine, order = Answering(), list[str]()
    options = FailoverOptions(max_requests=1, tenant_header="x-tenant", queue_size=10)
    async with working(engine.answer) as url, routed(url, options=options) as r:
        held = await filled(r, engine)

        async def ask(tenant: str) -> int:
            status, _, headers = await r.post(x_tenant=tenant)
            if status == 200:
                order.append(tenant)
            else:
                assert (status, headers["x-warmroute-refused"]) == (429, "queue-full")
                assert int(headers["retry-after"]) >= 1
            return status

        tasks = [asyncio.create_task(ask("greedy")) for _ in range(10)]
        await until(lambda: waiting(r) == 10)
        tasks += [asyncio.create_task(ask("modest"))]
        await until(lambda: any(task.done() for task in tasks))
        engine.open.set()
        statuses = await asyncio.gather(*tasks)
        await asyncio.gather(*held)
        assert (statuses.count(429), statuses[-1]) == (1, 200)
        assert order.index("modest") <= 1


async def test_a_deadline_that_comes_is_told_with_a_time_to_come_again() -> None:
    engine = Answering()
    async with working(engine.answer) as url, routed(url, options=ONE) as r:
        held = await filled(r, engine)
        status, body, headers = await r.post(x_warmroute_timeout_s="0.05")
        assert (status, headers["x-warmroute-refused"]) == (503, "queue-deadline")
        assert int(headers["retry-after"]) >= 1
        assert "queue_deadline" in body
        engine.open.set()
        await asyncio.gather(*held)
        assert r.proxy.room is not None
        assert r.proxy.room.counts.ends == {"queue-deadline": 1}


async def test_a_client_that_leaves_is_taken_out_at_once_and_its_request_is_never_sent() -> None:
    engine = Answering()
    async with working(engine.answer) as url, routed(url, options=ONE) as r:
        held = await filled(r, engine)
        leaving = asyncio.create_task(r.post())
        await until(lambda: waiting(r) == 1)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        await until(lambda: waiting(r) == 0)
        engine.open.set()
        await asyncio.gather(*held)
        assert engine.came == 1
        assert r.proxy.room is not None
        assert r.proxy.room.counts.ends == {"client-gone": 1}


# The engine's own server may find that a connection was gone before it had taken it in.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_clients_that_leave_at_any_moment_leak_nothing() -> None:
    engine = Answering()
    async with working(engine.answer) as url, routed(url, options=FailoverOptions(max_requests=3)) as r:

        async def impatient(number: int) -> None:
            host, port = r.url.removeprefix("http://").split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            body = json.dumps(BODY).encode()
            writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await asyncio.sleep(0.001 * (number % 20))
            writer.transport.abort()

        await asyncio.gather(*(impatient(number) for number in range(300)))
        await until(lambda: waiting(r) == 0 and all(worker.requests == 0 for worker in r.workers))
        assert (await r.post())[0] == 200


async def test_a_worker_that_comes_takes_those_who_wait() -> None:
    engine, helper = Answering(), Answering()
    async with working(engine.answer) as url, working(helper.answer) as other, routed(url, other, options=ONE) as r:
        r.router.table.set_status(r.workers[1], WorkerStatus.DOWN, "not yet")
        held = await filled(r, engine)
        task = asyncio.create_task(r.post())
        await until(lambda: waiting(r) == 1)
        r.router.table.set_status(r.workers[1], WorkerStatus.READY)
        assert (await task)[0] == 200
        assert (engine.came, helper.came) == (1, 1)
        engine.open.set()
        await asyncio.gather(*held)


async def test_those_who_wait_for_workers_that_all_went_down_are_told() -> None:
    engine = Answering()
    async with working(engine.answer) as url, routed(url, options=ONE) as r:
        held = await filled(r, engine)
        task = asyncio.create_task(r.post())
        await until(lambda: waiting(r) == 1)
        r.router.table.set_status(r.workers[0], WorkerStatus.DOWN, "gone")
        status, _, headers = await task
        assert (status, headers["x-warmroute-refused"]) == (503, "no-worker-ready")
        engine.open.set()
        await asyncio.gather(*held)


async def test_models_do_not_wait_for_each_others_workers() -> None:
    busy, idle = Answering(), Answering()
    async with working(busy.answer) as first, working(idle.answer) as second, routed(first, second, options=ONE) as r:
        r.router.learn(r.workers[1], WorkerFacts({"other": False}, 16, 1000))
        held = await filled(r, busy)
        task = asyncio.create_task(r.post())
        await until(lambda: waiting(r) == 1)
        async with r.client.post(f"{r.url}/v1/completions", json=BODY | {"model": "other"}) as response:
            assert response.status == 200
        assert waiting(r) == 1
        busy.open.set()
        await asyncio.gather(*held, task)


async def test_with_a_queue_of_nobody_everything_is_sent_on() -> None:
    engine = Answering()
    options = FailoverOptions(max_requests=1, queue_size=0)
    async with working(engine.answer) as url, routed(url, options=options) as r:
        held = await filled(r, engine, count=20)
        engine.open.set()
        await asyncio.gather(*held)
        assert engine.most_under_way == 20


async def test_a_worker_with_a_limit_of_its_own_keeps_it() -> None:
    small, large = Answering(), Answering()
    async with (
        working(small.answer) as first,
        working(large.answer) as second,
        routed(WorkerSpec(first, max_requests=2), WorkerSpec(second, max_requests=6)) as r,
    ):
        small.open.clear()
        large.open.clear()
        tasks = [asyncio.create_task(r.post()) for _ in range(12)]
        await until(lambda: waiting(r) == 4 and small.under_way + large.under_way == 8)
        assert (small.under_way, large.under_way) == (2, 6)
        small.open.set()
        large.open.set()
        await asyncio.gather(*tasks)
