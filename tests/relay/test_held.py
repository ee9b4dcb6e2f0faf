"""Answers held back while another worker is asked; listeners by name; refusals by word."""

import asyncio
import os
import socket
from collections.abc import Sequence

import aiohttp
import pytest
from aiohttp import web

from relay.served import answer_json, serving, until, working
from warmroute.errors import ConfigError
from warmroute.gateway.relay import Arrival, AttemptFailed, Outcome, RelayOptions, RelayServer

HOLD = frozenset({429, 503})


async def busy(request: web.Request) -> web.StreamResponse:
    """A worker that has no room."""
    await request.read()
    return web.Response(status=429, text="busy", headers={"retry-after": "2"})


async def test_a_held_answer_is_passed_on_when_no_other_worker_does_better() -> None:
    ends: list[AttemptFailed | Outcome] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        mine = [("x-warmroute-worker", "w-1")]
        held = await server.forward(arrival.request_id, worker, (), mine, on_end=ends.append, hold=HOLD)
        assert isinstance(held, AttemptFailed)
        assert (held.kind, held.status, held.retry_after_s) == ("held", 429, 2.0)
        ends.append(await server.pass_on(arrival.request_id, on_end=ends.append))

    async with working(busy) as worker, serving(decide) as served:
        async with served.client.post(served.url, data=b"{}") as response:
            assert (response.status, await response.text()) == (429, "busy")
            assert (response.headers["retry-after"], response.headers["x-warmroute-worker"]) == ("2", "w-1")
        outcome = await served.outcome()
        assert (outcome.end, outcome.status, outcome.forwarded) == ("completed", 429, True)
        assert ends[1:] == [outcome, outcome]


async def test_another_worker_answers_instead() -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        held = await server.forward(arrival.request_id, full, hold=(429,))
        assert isinstance(held, AttemptFailed)
        await server.forward(arrival.request_id, free, hold=(429,))

    async with working(busy) as full, working(answer_json) as free, serving(decide) as served:
        async with served.client.post(served.url, data=b"{}") as response:
            assert response.status == 200
        assert (await served.outcome()).status == 200


async def test_a_dispatch_holds_back_too() -> None:
    server = RelayServer()

    def dispatch(arrival: Arrival) -> None:
        def ended(event: AttemptFailed | Outcome) -> None:
            if isinstance(event, AttemptFailed):
                server.go_on(arrival.request_id, pass_on(arrival))

        server.dispatch(arrival.request_id, worker, (), (), ended, hold=HOLD)

    async def pass_on(arrival: Arrival) -> None:
        await server.pass_on(arrival.request_id)

    async with working(busy) as worker, aiohttp.ClientSession() as client:
        host, port = await server.start("127.0.0.1", 0, dispatch)
        async with client.post(f"http://{host}:{port}", data=b"{}") as response:
            assert (response.status, await response.text()) == (429, "busy")
        await server.close(1.0)


async def test_passing_on_needs_a_held_answer() -> None:
    errors: list[str] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        with pytest.raises(RuntimeError, match="held back"):
            await server.pass_on(arrival.request_id)
        await server.forward(arrival.request_id, worker, hold=HOLD)
        await server.respond(arrival.request_id, 503, [], b"full")
        errors.append((await server.pass_on(arrival.request_id)).end)

    async with working(busy) as worker, serving(decide) as served:
        async with served.client.post(served.url, data=b"{}") as response:
            assert (response.status, await response.text()) == (503, "full")
        await until(lambda: errors == ["completed"])


async def test_the_first_byte_is_told_to_those_who_ask() -> None:
    told: list[int] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        listener = (lambda event: told.append(event.request_id)) if arrival.query else None
        await server.forward(arrival.request_id, worker, on_first_byte=listener)

    async with working(answer_json) as worker, serving(decide) as served:
        for query in ("", "?timed"):
            async with served.client.get(served.url + "/" + query) as response:
                await response.read()
        await until(lambda: len(served.outcomes) == 2)
        assert told == [served.outcomes[1].request_id]
        assert all(outcome.first_byte_at is not None for outcome in served.outcomes)


async def _names(addresses: Sequence[tuple[str, int]]) -> list[str]:
    async with aiohttp.ClientSession() as client:
        names = []
        for host, port in addresses:
            async with client.get(f"http://{host}:{port}/", headers={"connection": "close"}) as response:
                names.append(await response.text())
        return names


async def test_listeners_have_names_and_are_handed_over() -> None:
    old, new = RelayServer(), RelayServer()

    async def tell(server: RelayServer, arrival: Arrival) -> None:
        await server.respond(arrival.request_id, 200, [], arrival.listener.encode())

    traffic = await old.start("127.0.0.1", 0, lambda arrival: tell(old, arrival))
    admin = await old.start("127.0.0.1", 0, lambda arrival: tell(old, arrival), listener="admin")
    assert await _names([traffic, admin]) == ["traffic", "admin"]
    handed = old.listener_fds()
    assert [name for name, _ in handed] == ["traffic", "admin"]
    for name, fd in handed:
        address = await new.listen_on(fd, lambda arrival: tell(new, arrival), listener=f"new {name}")
        os.close(fd)
        assert address in (traffic, admin)
    await old.close(0.5)
    assert old.listener_fds() == []
    assert await _names([traffic, admin]) == ["new traffic", "new admin"]
    await new.close(0.5)


async def test_what_does_not_listen_cannot_be_adopted() -> None:
    server = RelayServer()
    with socket.socket() as idle:
        for fd in (idle.fileno(), -1, 1 << 20):
            with pytest.raises(ConfigError, match=f"descriptor {fd}"):
                await server.listen_on(fd, lambda arrival: None)
    await server.close(0)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"])
async def test_a_refusal_by_the_relay_is_a_word_in_the_dialect_of_the_endpoint(path: str) -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        raise AssertionError("it must not arrive")

    async with serving(decide, RelayOptions(max_body_bytes=10)) as served:
        async with served.client.post(served.url + path, data=b"x" * 11) as response:
            error = await response.json()
            assert response.status == 413
        outcome = await served.outcome()
        assert (outcome.end, outcome.reason, outcome.status) == ("refused-by-relay", "body_too_large", 413)
        message = "the request body is larger than 10 bytes"
        if path.startswith("/v1/messages"):
            assert error == {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        else:
            assert error["error"] == {
                "message": message,
                "type": "invalid_request_error",
                "param": None,
                "code": "body_too_large",
            }


async def test_a_client_that_leaves_while_its_answer_is_held_ends_the_request() -> None:
    passed: list[str] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker, hold=HOLD)
        held.set()
        await until(lambda: server.gone(arrival.request_id))
        passed.append((await server.pass_on(arrival.request_id)).end)

    held = asyncio.Event()
    async with working(busy) as worker, serving(decide) as served:
        asking = asyncio.create_task(served.client.post(served.url, data=b"{}").__aenter__())
        await asyncio.wait_for(held.wait(), 5)
        asking.cancel()
        await until(lambda: passed == ["client-gone"])
        assert served.server.in_flight() == 0
