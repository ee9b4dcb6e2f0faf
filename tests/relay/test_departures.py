"""Clients and handlers that leave, and the end of a relay: each outcome is told once, to whoever waits or not."""

import asyncio
import contextlib
import socket

from aiohttp import web

from relay.served import Served, serving, until, working
from warmroute.gateway.relay import Arrival, AttemptFailed, Outcome, RelayServer

Ended = list[AttemptFailed | Outcome]


class SilentWorker:
    """A worker that never answers and notes whose connection was closed."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.asked += 1
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.closed += 1
            raise
        return web.Response()


async def ask_and_leave(served: Served, when: asyncio.Event) -> None:
    """Send a request and close the connection at `when`."""
    task = asyncio.create_task(served.client.post(f"{served.url}/v1/completions", data=b"{}").__aenter__())
    await when.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_client_that_leaves_an_unanswered_request_closes_the_upstream() -> None:
    silent, ended, asked = SilentWorker(), Ended(), asyncio.Event()

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        ended.append(await server.forward(arrival.request_id, worker))

    async with working(silent.answer) as worker, serving(decide) as served:
        leaving = asyncio.create_task(ask_and_leave(served, asked))
        await until(lambda: silent.asked == 1)
        asked.set()
        await leaving
        async with asyncio.timeout(1):
            await until(lambda: silent.closed == 1)
        outcome = await served.outcome()
        assert (outcome.end, outcome.status, outcome.forwarded) == ("client-gone", None, True)
        await until(lambda: ended == [outcome])
        assert served.server.in_flight() == 0


async def test_a_client_that_leaves_while_the_handler_decides() -> None:
    arrived, ended, ends = asyncio.Event(), Ended(), Ended()

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        assert not server.gone(arrival.request_id)
        arrived.set()
        await until(lambda: server.gone(arrival.request_id))
        ended.append(await server.forward(arrival.request_id, worker, on_end=ends.append))
        ended.append(await server.respond(arrival.request_id, 200, [], b""))

    silent = SilentWorker()
    async with working(silent.answer) as worker, serving(decide) as served:
        await ask_and_leave(served, arrived)
        outcome = await served.outcome()
        await until(lambda: len(ended) == 2)
        assert (ended, ends, outcome.end) == ([outcome, outcome], [outcome], "client-gone")
        assert silent.asked == 0
        assert served.server.gone(outcome.request_id)


async def test_a_cancelled_handler_still_gets_its_end_told() -> None:
    ends, handlers, answer = Ended(), list[asyncio.Task[None]](), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        await answer.wait()
        return web.Response(text="late")

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        await server.forward(arrival.request_id, worker, on_end=ends.append)

    async with working(slow) as worker, serving(decide) as served:
        asking = asyncio.create_task(served.client.post(served.url).__aenter__())
        await until(lambda: bool(handlers))
        await asyncio.sleep(0.05)
        handlers[0].cancel()
        await asyncio.wait(handlers)
        answer.set()
        assert await (await asking).text() == "late", "the client's answer does not depend on the handler"
        assert ends == [await served.outcome()]


async def test_a_cancelled_handler_whose_attempt_fails_leaves_no_client_waiting() -> None:
    handlers, fail = list[asyncio.Task[None]](), asyncio.Event()

    async def failing(request: web.Request) -> web.StreamResponse:
        await fail.wait()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        await server.forward(arrival.request_id, worker)

    async with working(failing) as worker, serving(decide) as served:
        asking = asyncio.create_task(served.client.post(served.url).__aenter__())
        await until(lambda: bool(handlers))
        await asyncio.sleep(0.05)
        handlers[0].cancel()
        await asyncio.wait(handlers)
        fail.set()
        assert (await asking).status == 500


async def test_close_lets_what_is_in_flight_end() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        asked.set()
        await answer.wait()
        return web.Response(text="in time")

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    async with working(slow) as worker, serving(decide) as served:
        asking = asyncio.create_task(served.client.get(served.url).__aenter__())
        await asked.wait()
        closing = asyncio.create_task(served.server.close(grace_s=10))
        await until(lambda: _refuses_now(served))
        answer.set()
        assert await (await asking).text() == "in time"
        await closing
        assert [outcome.end for outcome in served.outcomes] == ["completed"]


async def test_close_aborts_after_the_grace_and_tells_everyone() -> None:
    silent, ended, cancelled = SilentWorker(), Ended(), list[bool]()

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        if arrival.path == "/undecided":
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
        ended.append(await server.forward(arrival.request_id, worker))

    async with working(silent.answer) as worker, serving(decide) as served:
        asking = [
            asyncio.create_task(served.client.get(served.url + path).__aenter__()) for path in ["/sent", "/undecided"]
        ]
        await until(lambda: silent.asked == 1 and served.server.counts.arrivals == 2)
        await served.server.close(grace_s=0.1)
        assert [outcome.end for outcome in served.outcomes] == ["shutdown", "shutdown"]
        assert (len(ended), cancelled, served.server.in_flight()) == (1, [True], 0)
        for task in asking:
            response = await task
            assert (response.status, response.headers["retry-after"]) == (503, "1")
            assert (await response.json())["error"]["code"] == "router_stopping"


def _refuses_now(served: Served) -> bool:
    """Whether new connections are refused."""
    host, _, port = served.url.removeprefix("http://").partition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) != 0
