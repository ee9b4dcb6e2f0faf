"""Where one request ends and the next begins, and what a line of its head may do, through a whole router."""

import json
from pathlib import Path

import pytest

from field_failures.lying import BODY, LAST, LyingWorker, before
from field_failures.wire import request
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.keys import Role, new_key

SMUGGLED = "GET /v1/smuggled HTTP/1.1\r\nHost: r\r\n\r\n"
HEAD = "POST /v1/completions HTTP/1.1\r\nHost: r\r\n"

# Bytes in which one reader sees one request and another sees two: by two lengths, by a length that is spelled oddly, by
# a line that is none, or in a place that nobody should read as a request.
_AMBIGUOUS = {
    "length-and-chunks": f"{HEAD}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "chunks-and-length": f"{HEAD}Transfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "within-a-chunk": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n0\r\n\r\n",
    "two-lengths": f"{HEAD}Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "length-list": f"{HEAD}Content-Length: 0, {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "length-signed": f"{HEAD}Content-Length: +0\r\n\r\n{SMUGGLED}",
    "length-spaced": f"{HEAD}Content-Length : 0\r\n\r\n{SMUGGLED}",
    "length-folded": f"{HEAD}Content-Length:\r\n 0\r\n\r\n{SMUGGLED}",
    "length-behind-return": f"{HEAD}X: y\rContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "coding-spaced": f"{HEAD}Transfer-Encoding : chunked\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "coding-odd": f"{HEAD}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "coding-tabbed": f"{HEAD}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "codings-two": f"{HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "coding-not-last": f"{HEAD}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "coding-of-1.0": f"POST /v1/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "chunk-size-odd": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n{SMUGGLED}",
    "chunk-size-huge": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n{SMUGGLED}",
    "chunk-extension": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n0;\n{SMUGGLED}\r\n\r\n",
    "trailers": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n{SMUGGLED}",
    "body-of-get": f"GET /v1/x HTTP/1.1\r\nHost: r\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "body-of-own-page": f"GET /health HTTP/1.1\r\nHost: r\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "body-of-refused": f"GET /metrics HTTP/1.1\r\nHost: r\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
    "behind-websocket": f"GET /v1/x HTTP/1.1\r\nHost: r\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n{SMUGGLED}",
    "behind-connect": f"CONNECT r:80 HTTP/1.1\r\nHost: r\r\n\r\n{SMUGGLED}",
    "target-with-space": f"GET /v1/x HTTP/1.1\r\n{SMUGGLED[:13]} HTTP/1.1\r\nHost: r\r\n\r\n",
    "close-named": f"{HEAD}Connection: close, content-length\r\nContent-Length: {len(SMUGGLED)}\r\n\r\n{SMUGGLED}",
}


@pytest.mark.parametrize("data", _AMBIGUOUS.values(), ids=_AMBIGUOUS)
async def test_one_request_never_becomes_two(data: str) -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        answers = await r.send(data)
        targets = [asked.target for asked in worker.asked]
        assert targets in ([], [LAST], ["/v1/completions"], ["/v1/completions", LAST], ["/v1/x"], ["/v1/x", LAST])
        for asked in worker.asked:
            assert asked.all("transfer-encoding") == []
            assert int(asked.header("content-length") or 0) == len(asked.body)
        assert 1 <= len(answers) <= 2
        assert all(message.whole for message in answers)


async def test_what_cannot_be_a_header_is_refused_and_asks_nobody() -> None:
    worker = LyingWorker()
    lines = ("X-A: b\rX-Evil: 1", "X-A: b\0", "X-A: b\r\n X-Evil: 1", "X A: b", "X-A", ": b", "X-\xe4: b", "X-A\t: b")
    async with worker.serve(), before(worker) as r:
        for line in lines:
            assert (await r.ask(request("/v1/completions", BODY, line))).status == 400, line
        assert worker.asked == []
        assert {outcome.reason for outcome in await r.ended(len(lines))} == {"head_unreadable"}


@pytest.mark.parametrize("given", ["a\tb", "\xff\xe4\x80", "a; b=\"c\", 'd'", "%0d%0aX-Evil:%201", "x" * 60_000])
async def test_a_request_id_goes_to_the_worker_and_back_as_one_line(given: str) -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        message = await r.ask(request("/v1/completions", BODY, f"X-Request-Id: {given}", "X-Request-Id: second"))
        assert (message.status, message.header("x-request-id")) == (200, given)
        assert worker.asked[0].header("x-request-id") == given
        assert message.header("x-evil") is None


async def test_a_client_cannot_take_away_what_the_router_sets(tmp_path: Path) -> None:
    key, made = new_key("a", Role.TRAFFIC)
    ours, theirs = tmp_path / "keys", tmp_path / "worker-keys"
    ours.write_text(f"{made.line}\n")
    theirs.write_text("engine-key\n")
    named = "Connection: authorization, x-api-key, x-request-id, host, content-length, x-own"
    shown = [f"Authorization: Bearer {key}", f"X-Api-Key: {key}", "X-Request-Id: r1", "X-Own: 1", named]
    worker = LyingWorker()
    access = AccessOptions(api_keys=str(ours), worker_api_key_file=str(theirs))
    async with worker.serve(), before(worker, access=access) as r:
        assert (await r.ask(request("/v1/completions", BODY, *shown))).status == 200
        (asked,) = worker.asked
        assert (asked.header("authorization"), asked.header("x-request-id")) == ("Bearer engine-key", "r1")
        assert asked.header("host") == worker.url.removeprefix("http://")
        assert asked.body == BODY.encode()
        assert (asked.header("x-own"), asked.header("x-api-key")) == (None, None)


async def test_a_client_cannot_hide_where_it_comes_from() -> None:
    """`Connection` names what one hop is to drop; what the router itself adds is for those behind it."""
    worker = LyingWorker()
    named = "Connection: x-forwarded-for, X-Forwarded-Proto,x-forwarded-host, traceparent"
    async with worker.serve(), before(worker) as r:
        assert (await r.ask(request("/v1/completions", BODY, named, "X-Forwarded-For: 203.0.113.9"))).status == 200
        (asked,) = worker.asked
        assert asked.header("x-forwarded-for") == "203.0.113.9, 127.0.0.1"
        assert (asked.header("x-forwarded-proto"), asked.header("x-forwarded-host")) == ("http", "r")
        assert asked.header("traceparent") is not None


async def test_a_request_names_one_host() -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        for other in ("r", "elsewhere", ""):
            (refused,) = await r.send(request("/v1/completions", BODY, f"Host: {other}"))
            assert (refused.status, json.loads(refused.body)["error"]["code"]) == (400, "host_ambiguous")
        assert worker.asked == []
        health = await r.ask(b"GET /health HTTP/1.1\r\n\r\n")
        assert health.status == 200, "checks of some load balancers name none"


async def test_what_concerns_one_connection_stays_on_it() -> None:
    worker = LyingWorker()
    lines = ("Keep-Alive: 5", "TE: trailers", "Proxy-Authorization: x", "Proxy-Connection: close", "Trailer: x")
    async with worker.serve(), before(worker) as r:
        await r.ask(request("/v1/completions", BODY, *lines, "Connection: keep-alive, te"))
        (asked,) = worker.asked
        gone = ("keep-alive", "te", "proxy-authorization", "proxy-connection", "trailer", "connection")
        assert [asked.header(name) for name in gone] == [None] * len(gone)
