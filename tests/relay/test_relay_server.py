"""The face of the relay: what each way of answering gives to the client and to the handler."""

import asyncio
import socket
import time

import pytest
from aiohttp import web

from relay.served import USAGE, answer_json, nobody, serving, stream_events, until, working
from warmroute.errors import AddressInUse, ConfigError
from warmroute.gateway.relay import Arrival, AttemptFailed, FirstByte, Outcome, RelayOptions, RelayServer


async def test_forward_carries_and_tells_the_outcome() -> None:
    ended: list[AttemptFailed | Outcome] = []
    firsts: list[FirstByte] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        headers = [("x-request-id", "r1")]
        ended.append(
            await server.forward(
                arrival.request_id, worker, headers, [("x-warmroute-worker", "w0")], on_first_byte=firsts.append
            )
        )

    async with working(answer_json) as worker, serving(decide) as served:
        before = time.monotonic()
        async with served.client.post(f"{served.url}/v1/completions?a=1", data=b'{"p": 1}') as response:
            assert (response.status, response.headers["x-warmroute-worker"]) == (200, "w0")
            assert await response.json() == {"echo": '{"p": 1}', "path": "/v1/completions?a=1", "usage": USAGE}
        outcome = await served.outcome()
        assert ended == [outcome]
        assert (outcome.end, outcome.status, outcome.forwarded, outcome.request_bytes) == ("completed", 200, True, 8)
        assert (outcome.prompt_tokens, outcome.completion_tokens, outcome.cached_tokens) == (7, 3, 4)
        assert outcome.started_at is not None
        assert before <= outcome.started_at <= firsts[0].at <= outcome.ended_at <= time.monotonic()


async def test_an_arrival_shows_the_request() -> None:
    arrivals: list[Arrival] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        arrivals.append(arrival)
        await server.respond(arrival.request_id, 204, [], b"")

    async with serving(decide) as served:
        async with served.client.put(f"{served.url}/a%20b?q=1", data=b"\x00\xff", headers={"X-One": "\xe4"}):
            pass
        arrival = arrivals[0]
        assert (arrival.method, arrival.path, arrival.query) == ("PUT", "/a%20b", "q=1")
        assert arrival.body == b"\x00\xff"
        assert arrival.body is arrival.body, "made once"
        assert arrival.header("X-ONE") is not None
        assert arrival.header("absent") is None
        assert ("content-length", "2") in arrival.headers
        assert arrival.client.startswith("127.0.0.1:")
        assert 0 <= time.monotonic() - arrival.received_at < 5


async def test_a_stream_is_carried_and_counted() -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    async with working(stream_events) as worker, serving(decide) as served:
        async with served.client.post(f"{served.url}/v1/completions") as response:
            lines = [line async for line in response.content]
        assert lines[0::2][-1] == b"data: [DONE]\n"
        outcome = await served.outcome()
        assert (outcome.events, outcome.prompt_tokens, outcome.cached_tokens) == (5, 5, None)


async def test_after_a_failed_attempt_the_next_worker_answers() -> None:
    kinds: list[str] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        for url in [nobody(), "ftp://nonsense", worker]:
            ended = await server.forward(arrival.request_id, url)
            if isinstance(ended, Outcome):
                return
            kinds.append(ended.kind)

    async with working(answer_json) as worker, serving(decide) as served:
        async with served.client.post(f"{served.url}/x", data=b"kept") as response:
            assert (await response.json())["echo"] == "kept"
        assert kinds == ["refused", "refused"]
        assert (await served.outcome()).end == "completed"
        assert served.server.counts.failed_attempts == 2


async def test_respond_gives_the_routers_own_words() -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        ended = await server.respond(arrival.request_id, 503, [("retry-after", "1")], b"busy")
        assert ended.end == "completed"

    async with serving(decide) as served:
        async with served.client.get(served.url) as response:
            assert (response.status, response.headers["retry-after"], await response.read()) == (503, "1", b"busy")
        assert not (await served.outcome()).forwarded


@pytest.mark.parametrize("raises", [True, False])
async def test_a_handler_without_an_answer_gives_a_500(raises: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        if raises:
            raise LookupError("a bug")

    async with serving(decide) as served:
        async with served.client.get(served.url) as response:
            assert response.status == 500
            assert (await response.json())["error"]["type"] == "internal_error"
        assert (await served.outcome()).status == 500
        assert served.server.counts.unanswered == 1
    assert ("a bug" in caplog.text) == raises


async def test_what_cannot_be_sent_is_an_error_and_the_request_stays_open() -> None:
    ends: list[object] = []

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        with pytest.raises(ValueError, match="bad name"):
            await server.forward(arrival.request_id, nobody(), [("bad name", "x")], on_end=ends.append)
        with pytest.raises(ValueError, match="x-bad"):
            await server.forward(arrival.request_id, nobody(), [], [("x-bad", "\N{SNOWMAN}")], on_end=ends.append)
        with pytest.raises(ValueError, match="status"):
            await server.respond(arrival.request_id, 99, [], b"")
        await server.respond(arrival.request_id, 200, [], b"open")

    async with serving(decide) as served, served.client.get(served.url) as response:
        assert await response.read() == b"open"
    assert ends == []


async def test_a_failing_callback_harms_nobody() -> None:
    def fail(_: object) -> None:
        raise LookupError("a bug")

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker, on_first_byte=fail, on_end=fail)

    async with working(answer_json) as worker, serving(decide) as served:
        async with served.client.get(served.url) as response:
            assert response.status == 200
        assert (await served.outcome()).end == "completed"
        assert served.server.counts.callback_errors == 2


async def test_a_body_over_the_limit_never_arrives() -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        raise AssertionError("must not arrive")

    async with serving(decide, RelayOptions(max_body_bytes=100)) as served:
        async with served.client.post(served.url, data=b"x" * 101) as response:
            assert response.status == 413
            assert "100 bytes" in (await response.json())["error"]["message"]
        outcome = await served.outcome()
        assert (outcome.end, outcome.status, served.server.counts.arrivals) == ("refused-by-relay", 413, 0)


async def test_addresses_that_cannot_be_listened_on() -> None:
    async def decide(arrival: Arrival) -> None:
        raise AssertionError("nobody asks")

    server = RelayServer()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(AddressInUse, match="in use"):
        await server.start("127.0.0.1", taken.getsockname()[1], decide)
    for host in ["192.0.2.1", "no-such-host.invalid"]:
        with pytest.raises(ConfigError, match=host):
            await server.start(host, 0, decide)
    host, port = await server.start("::1", 0, decide)
    assert (host, port > 0) == ("::1", True)
    await server.close(0)


async def test_many_requests_at_once() -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    async with working(answer_json) as worker, serving(decide) as served:

        async def ask(number: int) -> str:
            async with served.client.post(served.url, data=str(number)) as response:
                return str((await response.json())["echo"])

        assert await asyncio.gather(*(ask(number) for number in range(200))) == [str(n) for n in range(200)]
        await until(lambda: len(served.outcomes) == 200)
        assert served.server.in_flight() == 0
        assert len({outcome.request_id for outcome in served.outcomes}) == 200


async def test_a_worker_that_dies_within_its_answer() -> None:
    async def die(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        assert request.transport is not None
        request.transport.abort()
        return response

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    async with working(die) as worker, serving(decide) as served:
        async with served.client.post(f"{served.url}/v1/completions") as response:
            assert b'"code":"worker_failed"' in await response.read()
        assert (await served.outcome()).end == "worker-failed"


async def test_events_can_be_made_for_tests() -> None:
    outcome = Outcome(3, "worker-failed", cached_tokens=5)
    assert (outcome.end, outcome.status, outcome.cached_tokens, outcome.prompt_tokens) == (
        "worker-failed",
        200,
        5,
        None,
    )
    arrival = Arrival(1, "GET", "/", "", [("a", "b")], b"x", "127.0.0.1:1", 0.0)
    assert (arrival.header("A"), arrival.body) == ("b", b"x")
    assert FirstByte(1, 200, 2.0).at == 2.0
    assert AttemptFailed(1, "reset", "gone", 2.0).kind == "reset"
    with pytest.raises(ValueError, match="nonsense"):
        Outcome(1, "nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        AttemptFailed(1, "nonsense", "", 0.0)
