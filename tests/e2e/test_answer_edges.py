"""What workers may answer, through a whole router: no client gets what was meant for another, or for nobody."""

import asyncio
import json

import pytest

from field_failures.lying import BODY, STREAM_HEAD, STREAMED, Asked, LyingWorker, answer, before
from field_failures.wire import LAST_CHUNK, chunked, request
from gateway.routed import until
from warmroute.admission import FailoverOptions

ASK = request(body=BODY)
PATIENT = FailoverOptions(slow_start_s=0.0, retry_floor_per_s=1e6)
EVIL = answer('{"evil": true}')


def said_first(first: bytes) -> LyingWorker:
    """A worker that says this to its first request, and answers the later ones by their targets."""

    async def script(asked: Asked) -> None:
        await asked.send(first if len(worker.asked) == 1 else answer(asked.message.target))

    worker = LyingWorker(script)
    return worker


# What stands behind an answer belongs to nobody.
_TOO_MUCH = {
    "two-answers": (answer("{}") + EVIL, 200),
    "beyond-the-length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + EVIL, 200),
    "beyond-the-chunks": (STREAM_HEAD + chunked("{}") + LAST_CHUNK + EVIL, 200),
    "behind-trailers": (STREAM_HEAD + chunked("{}") + b"0\r\nX-Sum: 1\r\n\r\n" + EVIL, 200),
    "behind-204": (b"HTTP/1.1 204 No Content\r\n\r\n" + EVIL, 204),
    "body-of-204": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello" + EVIL, 204),
    "chunks-of-204": (
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("x") + LAST_CHUNK,
        204,
    ),
    "body-of-304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello" + EVIL, 304),
    "behind-error": (answer("{}", "400 Bad Request") + EVIL, 400),
    "behind-held": (answer("{}", "503 Busy") + EVIL, 503),
}


@pytest.mark.parametrize(("first", "status"), _TOO_MUCH.values(), ids=_TOO_MUCH)
async def test_what_stands_behind_an_answer_is_no_answer_to_the_next_request(first: bytes, status: int) -> None:
    worker = said_first(first)
    async with worker.serve(), before(worker, failover=PATIENT) as r:
        client = await r.client()
        await client.send(ASK)
        message = await client.answer()
        assert message.status == status
        assert b"evil" not in message.body
        for number in range(5):
            await client.send(request(f"/v1/x{number}", BODY))
            assert (await client.answer()).body == b"/v1/x%d" % number
        assert (await r.ask(request("/v1/other", BODY))).body == b"/v1/other"
        assert worker.connections >= 2, "the connection with too much on it is not used again"
        await client.close()


async def test_an_answer_that_nobody_asked_for_on_a_connection_at_rest_closes_it() -> None:
    worker = LyingWorker()
    told = asyncio.Event()

    async def script(asked: Asked) -> None:
        await asked.send(answer(asked.message.target))
        if len(worker.asked) == 1:
            await told.wait()
            await asked.send(EVIL)
            await worker.see_it_go(asked)

    worker.script = script
    async with worker.serve(), before(worker) as r:
        assert (await r.ask(request("/v1/first", BODY))).body == b"/v1/first"
        told.set()
        await until(lambda: worker.gone == 1)
        assert (await r.ask(request("/v1/second", BODY))).body == b"/v1/second"


async def test_a_body_in_answer_to_head_is_no_answer_to_the_next_request() -> None:
    worker = said_first(EVIL)
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(request("/v1/x", "", method="HEAD"))
        message = await client.answer(bodiless=True)
        assert (message.status, message.header("content-length")) == (200, "14")
        await client.send(request("/v1/next", BODY))
        assert (await client.answer()).body == b"/v1/next"
        await client.close()


# Heads that nobody could read, or that two readers might read in two ways.
_NO_ANSWERS = {
    "return-in-value": b"HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: evil\r\nContent-Length: 2\r\n\r\n{}",
    "folded": b"HTTP/1.1 200 OK\r\nX-A: a\r\n Set-Cookie: evil\r\nContent-Length: 2\r\n\r\n{}",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    "space-before-colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length-below-zero": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
    "length-of-words": b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
    "status-0": b"HTTP/1.1 000 Odd\r\nContent-Length: 0\r\n\r\n",
    "status-of-four": b"HTTP/1.1 1000 Odd\r\nContent-Length: 0\r\n\r\n",
    "version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "tls": b"\x15\x03\x01\x00\x02\x02\x46",
    "another-protocol": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "coding-not-chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nevil",
    "coding-in-chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
    "a-body-alone": b'{"choices": []}\r\n\r\n',
    "half-a-head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "nothing": b"",
}


@pytest.mark.parametrize("said", _NO_ANSWERS.values(), ids=_NO_ANSWERS)
async def test_what_is_no_answer_is_tried_elsewhere_and_reaches_no_client(said: bytes) -> None:
    async def lies(asked: Asked) -> None:
        await asked.send(said)
        asked.close()

    liar, honest = LyingWorker(lies), LyingWorker()
    async with liar.serve(), honest.serve(), before(liar, honest, failover=PATIENT) as r:
        while not liar.asked:
            message = await r.ask(ASK)
            assert (message.status, message.body) == (200, answer().split(b"\r\n\r\n")[1])
            assert "evil" not in str(message.headers)
        honest.script = lies
        message = await r.ask(ASK)
        assert (message.status, message.header("x-warmroute-refused")) == (502, "workers-exhausted")
        assert json.loads(message.body)["error"]["code"] == "workers_exhausted"


async def test_interim_answers_are_not_the_answer() -> None:
    interim = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
    )
    worker = said_first(interim + answer("{}"))
    async with worker.serve(), before(worker) as r:
        message = await r.ask(ASK)
        assert (message.status, message.body, message.header("link")) == (200, b"{}", None)


async def test_a_worker_cannot_speak_for_the_router_nor_of_the_connection() -> None:
    names = ("x-request-id", "x-warmroute-worker", "x-warmroute-cached-tokens", "x-warmroute-match")
    lies = [f"{name}: evil" for name in (*names, *names)]
    hop = (
        "Connection: x-request-id, x-hop",
        "X-Hop: 1",
        "Keep-Alive: timeout=9",
        "Upgrade: h2c",
        "Proxy-Connection: x",
    )
    worker = said_first(answer("{}", "200 OK", *lies, *hop, "Set-Cookie: a=1", "Set-Cookie: b=2"))
    async with worker.serve(), before(worker) as r:
        message = await r.ask(request("/v1/completions", BODY, "X-Request-Id: mine"))
        assert message.header("x-request-id") == "mine"
        assert message.header("x-warmroute-worker") == next(iter(r.gateway.router.table)).name
        assert (message.header("x-warmroute-cached-tokens"), message.header("x-warmroute-match")) == ("0", "exact")
        gone = ("connection", "x-hop", "keep-alive", "upgrade", "proxy-connection")
        assert [message.header(name) for name in gone] == [None] * len(gone)
        assert message.all("set-cookie") == ["a=1", "b=2"]


@pytest.mark.parametrize(
    "whole",
    [
        b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
        b"HTTP/1.1 200\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 \xff\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunked("{", "}")
        + LAST_CHUNK,
        b"HTTP/1.1 200 OK\r\ncontent-type:application/json\r\nConnection: close\r\nContent-Length:2\r\n\r\n{}",
    ],
    ids=["1.0", "until-closed", "no-reason", "reason", "line-feeds", "length-and-chunks", "close"],
)
async def test_answers_in_unusual_spellings_come_whole(whole: bytes) -> None:
    async def says(asked: Asked) -> None:
        await asked.send(whole)
        asked.close()

    worker = LyingWorker(says)
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        for _ in range(3):
            await client.send(ASK)
            message = await client.answer()
            assert (message.status, message.body, message.whole) == (200, b"{}", True)
            assert message.header("content-type") == "application/json"
        await client.close()


@pytest.mark.parametrize("size", [100_000, 5_000_000])
async def test_a_worker_may_refuse_a_body_that_it_has_not_read(size: int) -> None:
    """As proxies before engines do: the answer counts, and not that the rest of the body could not be written."""

    async def refuses(asked: Asked) -> None:
        await asked.send(answer('{"error": "too large"}', "413 Content Too Large", "Connection: close"))
        # The reset that follows, as the body was not read, may overtake an answer that nobody has had time to read.
        await asyncio.sleep(0.1)
        asked.close()

    worker = LyingWorker(refuses, patient=False)
    async with worker.serve(), before(worker) as r:
        for number in range(5):
            message = await r.ask(request(body="x" * size))
            assert (message.status, message.body) == (413, b'{"error": "too large"}')
            assert len(worker.asked) == number + 1
        assert r.gateway.relay.counts.failed_attempts == 0


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified", "205 Reset Content", "299 Odd", "599 Odd"])
async def test_answers_without_a_body_and_odd_statuses_pass(status: str) -> None:
    length = () if status[:3] in ("204", "304") else ("Content-Length: 0",)
    said = "\r\n".join([f"HTTP/1.1 {status}", "ETag: x", *length]).encode() + b"\r\n\r\n"
    worker = said_first(said)
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(ASK)
        message = await client.answer()
        assert (message.status, message.body, message.header("etag")) == (int(status[:3]), b"", "x")
        await client.send(request("/v1/next", BODY))
        assert (await client.answer()).body == b"/v1/next"
        assert worker.connections == 1
        await client.close()


@pytest.mark.parametrize("rest", [b"zz\r\n", b"5\r\nabc", b"5\r\nabcdefgh\r\n", b"fffffffffffffffff\r\n"])
async def test_chunks_that_make_no_sense_end_a_stream_with_one_error(rest: bytes) -> None:
    async def breaks(asked: Asked) -> None:
        await asked.send(STREAM_HEAD + chunked("data: 1\n\n") + rest)
        asked.close()

    worker = LyingWorker(breaks)
    async with worker.serve(), before(worker) as r:
        message = await r.ask(request(body=STREAMED))
        assert (message.status, message.whole) == (200, True)
        events = [line for line in message.body.split(b"\n") if line.startswith(b"data: ")]
        assert events[0] == b"data: 1"
        assert json.loads(events[-1].removeprefix(b"data: "))["error"]["code"] == "worker_failed"
        assert [outcome.end for outcome in await r.ended(1)] == ["worker-failed"]
