"""What clients may do with HTTP, through a whole router; see `test_request_framing.py` for what they must not."""

import asyncio
import gzip
import json

import pytest

from field_failures.lying import BODY, LAST, STREAM_HEAD, Asked, LyingWorker, answer, before
from field_failures.wire import LAST_CHUNK, Client, Message, chunked, request
from gateway.routed import until
from warmroute.admission import FailoverOptions
from warmroute.gateway.relay import RelayOptions

ASK = request(body=BODY)
NOT_SLOW = FailoverOptions(slow_start_s=0.0)
HEAD = "POST /v1/completions HTTP/1.1\r\nHost: r\r\n"

# Paths by which one might come to the router's own pages, or to engines' that the router does not serve.
_NOT_HERE = (
    "/warmroute/workers",
    "/warmroute/workers/",
    "/warmroute/state?x=/v1/",
    "//warmroute/state",
    "/warmroute//state",
    "/%77armroute/state",
    "/WARMROUTE/state",
    "/metrics",
    "/metrics/",
    "/./metrics",
    "//metrics",
    "http://r/metrics",
    "http://r/warmroute/state",
    "/",
    "http://r",
    "http://r?/v1/x",
    "/v1",
    "/v1/",
    "//v1/completions",
    "/V1/completions",
    "/sleep",
    "/reset_prefix_cache",
    "/generate/../sleep",
    "/tokenize/x",
)


async def test_by_no_path_does_traffic_reach_the_routers_own_pages() -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        for target in _NOT_HERE:
            for host in ("127.0.0.1", "router.example"):
                for method in ("GET", "POST", "DELETE"):
                    message = await r.ask(request(target, "{}", method=method, host=host))
                    assert message.status == 404, (method, target, host)
                    assert json.loads(message.body)["error"]["code"] == "not_found"
        assert worker.asked == []


async def test_targets_reach_the_worker_as_they_came() -> None:
    targets = (
        "/v1/completions/",
        "/v1/x?",
        "/v1/x?a=%20&b=/../&c",
        "/v1//x",
        "/v1/%2e%2e/x",
        "/v1/models/m/n",
        "/v1/x;y",
    )
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        for target in targets:
            assert (await r.ask(request(target, BODY))).status == 200
            assert (await r.ask(request(f"http://elsewhere:1{target}", BODY))).status == 200
        assert [asked.target for asked in worker.asked] == [target for target in targets for _ in range(2)]
        assert (await r.ask(request("/health/?a=b", "", method="GET"))).status == 200
        assert (await r.ask(request("/v1/models/?a=b", "", method="GET"))).status == 200
        assert len(worker.asked) == 2 * len(targets)


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    """Workers' answers, the router's own pages, answers without a body, and a last one that closes."""

    async def echoes(asked: Asked) -> None:
        await asyncio.sleep(0.02 if asked.message.target.endswith("0") else 0)
        bodiless = asked.message.start.startswith("HEAD")
        whole = answer(asked.message.target)
        await asked.send(whole[: whole.index(b"\r\n\r\n") + 4] if bodiless else whole)

    worker = LyingWorker(echoes)
    asks = [request(f"/v1/x{number}", BODY) for number in range(12)]
    own, without_body = request("/health", "", method="GET"), request("/v1/head", "", method="HEAD")
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(b"".join([*asks[:6], own, without_body, *asks[6:], request("/metrics", "", method="GET")]))
        got = [(await client.answer(bodiless=at == 7)).body for at in range(15)]
        expected = [b"/v1/x%d" % number for number in range(12)]
        assert got[:6] + got[8:14] == expected
        assert (got[6], got[7]) == (b'{"status":"ok"}\n', b"")
        assert b"admin port" in got[14]
        await client.close()


@pytest.mark.parametrize(
    ("behind", "how"),
    [(b"\r\n", "leave"), (b"\r\n", "close"), (b"G", "leave"), (ASK, "close"), (ASK * 500, "leave")],
    ids=["line-end-reset", "line-end", "part", "one", "many"],
)
async def test_a_client_that_leaves_with_more_behind_its_request_is_noticed(behind: bytes, how: str) -> None:
    """A line end too many, as some clients send, or a next request: the worker must not run on for nobody."""
    worker = LyingWorker()
    worker.script = worker.see_it_go
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        await client.send(ASK + behind)
        await until(lambda: len(worker.asked) == 1)
        await getattr(client, how)()
        await until(lambda: worker.gone == 1)
        assert [outcome.end for outcome in await r.ended(1)] == ["client-gone"]
        assert len(worker.asked) == 1


async def test_one_who_asks_before_sending_a_body_is_told() -> None:
    worker = LyingWorker()
    head = f"{HEAD}Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n"
    async with worker.serve(), before(worker, relay=RelayOptions(max_body_bytes=1_000)) as r:
        client = await r.client()
        await client.send(head)
        assert (await client.answer()).status == 100
        await client.send(BODY)
        assert (await client.answer()).status == 200
        await client.send(f"{HEAD}Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.answer()).status == 413, "and not 100 first"
        assert await client.is_closed()
        assert [asked.header("expect") for asked in worker.asked] == [None]
        await client.close()


_LIMIT = 1_000


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(body="x" * _LIMIT), 200),
        (request(body="x" * (_LIMIT + 1)), 413),
        (HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunked("x" * 999, "y") + LAST_CHUNK, 200),
        (HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunked("x" * 999, "yy") + LAST_CHUNK, 413),
        (HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*["z" * 100] * 100) + LAST_CHUNK, 413),
        (request("/v1/messages", "x" * (_LIMIT + 1)), 413),
        (request("/health", "x" * (_LIMIT + 1), method="GET"), 413),
    ],
    ids=["at", "declared", "chunked-at", "chunked", "chunks", "messages", "own-page"],
)
async def test_a_body_over_the_limit_is_refused_however_it_comes(data: bytes, status: int) -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker, relay=RelayOptions(max_body_bytes=_LIMIT)) as r:
        answers = await r.send(data)
        assert answers[0].status == status
        assert len(answers) == (2 if status == 200 else 1), "behind a refused body nothing is read as a request"
        assert [asked.target for asked in worker.asked] == (["/v1/completions", LAST] if status == 200 else [])
        if status == 413:
            assert "1000 bytes" in json.loads(answers[0].body)["error"]["message"]


async def test_heads_over_the_limits_are_refused_and_the_router_goes_on() -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        most = [f"X-{number}: 1" for number in range(250)]
        assert (await r.ask(request("/v1/completions", BODY, *most))).status == 200
        assert (await r.ask(request("/v1/completions", BODY, *most, *most))).status == 431
        assert (await r.ask(request("/v1/completions", BODY, "X: " + "x" * 200_000))).status == 200
        assert (await r.ask(request("/v1/completions", BODY, "X: " + "x" * 300_000))).status == 431
        assert (await r.ask(request("/v1/" + "x" * 70_000, BODY))).status == 414
        assert len(worker.asked) == 2
        assert (await r.ask(ASK)).status == 200


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        ("GET /v1/realtime HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", 400, "upgrade_unsupported"),
        ("GET /health HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: x, WebSocket/13\r\n", 400, "upgrade_unsupported"),
        ("CONNECT worker:8000 HTTP/1.1\r\n", 405, "tunnel_unsupported"),
        ("OPTIONS * HTTP/1.1\r\n", 400, "target_unsupported"),
    ],
)
async def test_what_asks_for_something_other_than_an_answer_is_refused(head: str, status: int, code: str) -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        (message,) = await r.send(f"{head}Host: r\r\n\r\n")
        assert (message.status, json.loads(message.body)["error"]["code"]) == (status, code)
        assert [outcome.reason for outcome in await r.ended(1)] == [code]
        assert worker.asked == []


async def test_an_offer_of_another_protocol_need_not_be_taken() -> None:
    worker = LyingWorker()
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
    async with worker.serve(), before(worker) as r:
        assert (await r.ask(request("/v1/completions", BODY, *offer))).status == 200
        assert [worker.asked[0].header(name) for name in ("upgrade", "http2-settings", "connection")] == [None] * 3


@pytest.mark.parametrize("half_close", [False, True])
async def test_a_client_that_closes_its_sending_side(half_close: bool) -> None:
    """By default that is how a client leaves; where `--half-close` is given it is answered."""
    going_on, worker = asyncio.Event(), LyingWorker()

    async def waits(asked: Asked) -> None:
        if half_close:
            await going_on.wait()
            await asked.send(answer("late"))
        else:
            await worker.see_it_go(asked)

    worker.script = waits
    async with worker.serve(), before(worker, relay=RelayOptions(half_close=half_close)) as r:
        client = await r.client()
        await client.send(ASK)
        await until(lambda: len(worker.asked) == 1)
        client.half_close()
        going_on.set()
        if half_close:
            assert (await client.answer()).body == b"late"
        else:
            await until(lambda: worker.gone == 1)
            assert await client.is_closed()
        await client.close()


async def test_slow_clients_are_served_and_silent_ones_given_up() -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker, relay=RelayOptions(head_timeout_s=1.0)) as r:
        slow, silent, halfway = await r.client(), await r.client(), await r.client()
        await silent.send("POST /v1/comp")
        await halfway.send(f"{HEAD}Content-Length: 10\r\n\r\n12345")
        for at in range(0, len(ASK), 3):
            await slow.send(ASK[at : at + 3])
            await asyncio.sleep(0)
        assert (await slow.answer()).status == 200
        assert await silent.is_closed()
        given_up = await halfway.answer()
        assert (given_up.status, json.loads(given_up.body)["error"]["code"]) == (408, "body_timeout")
        assert len(worker.asked) == 1
        for client in (slow, silent, halfway):
            await client.close()


async def test_a_client_that_reads_nothing_is_cut_off_and_its_worker_let_go() -> None:
    worker = LyingWorker()

    async def floods(asked: Asked) -> None:
        await asked.send(STREAM_HEAD)
        piece = chunked(b"data: " + b"x" * 60_000 + b"\n\n")
        try:
            while True:
                await asked.send(piece)
        except ConnectionError:
            worker.gone += 1

    worker.script = floods
    async with worker.serve(), before(worker, relay=RelayOptions(client_write_timeout_s=0.3)) as r:
        client = await Client.of(r.gateway.url, reading=False)
        await client.send(ASK)
        await until(lambda: worker.gone == 1)
        assert [outcome.end for outcome in await r.ended(1)] == ["client-gone"]
        await client.leave()


@pytest.mark.parametrize(
    "data",
    [
        request(body=""),
        HEAD.encode() + b"\r\n",
        HEAD.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + LAST_CHUNK,
        b"DELETE /v1/completions HTTP/1.1\r\nHost: r\r\n\r\n",
    ],
    ids=["length-0", "no-length", "no-chunks", "delete"],
)
async def test_bodies_of_no_bytes_pass(data: bytes) -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        assert [message.status for message in await r.send(data)] == [200, 200]
        assert [asked.target for asked in worker.asked] == ["/v1/completions", LAST]
        assert (worker.asked[0].body, worker.asked[0].header("content-length")) in ((b"", "0"), (b"", None))


async def test_a_compressed_body_passes_as_it_is() -> None:
    worker, packed = LyingWorker(), gzip.compress(BODY.encode())
    async with worker.serve(), before(worker) as r:
        message = await r.ask(request("/v1/completions", packed, "Content-Encoding: gzip"))
        assert (message.status, message.header("x-warmroute-match")) == (200, "none")
        assert (worker.asked[0].body, worker.asked[0].header("content-encoding")) == (packed, "gzip")


async def test_odd_values_of_headers_that_the_router_reads_cost_no_request() -> None:
    odd = ("\xff", "nan", "-1", "1e999", "99999999999999999999", "\xb2", "a,b", '"')
    names = ("X-Warmroute-Timeout-S", "X-Data-Parallel-Rank", "X-Session-Id", "Authorization", "X-Forwarded-For")
    worker = LyingWorker()
    async with worker.serve(), before(worker, failover=NOT_SLOW) as r:
        for value in odd:
            for name in names:
                assert (await r.ask(request("/v1/completions", BODY, f"{name}: {value}"))).status == 200, (name, value)
        assert len(worker.asked) == len(odd) * len(names)


async def test_the_router_and_its_workers_may_have_addresses_of_ipv6() -> None:
    worker = LyingWorker()
    async with worker.serve("::1") as url, before(worker, host="::1") as r:
        assert r.gateway.url.startswith("http://[::1]:")
        host = r.gateway.url.removeprefix("http://")
        assert (await r.ask(request(f"http://{host}/v1/completions", BODY, host=host))).status == 200
        (asked,) = worker.asked
        assert (asked.header("host"), asked.header("x-forwarded-for")) == (url.removeprefix("http://"), "::1")
        assert asked.header("x-forwarded-host") == host


async def test_head_and_options_of_the_routers_own_pages() -> None:
    async def of(client: Client, method: str, path: str) -> Message:
        await client.send(request(path, "", method=method))
        return await client.answer(bodiless=method == "HEAD")

    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        client = await r.client()
        for path in ("/health", "/ready", "/v1/models"):
            whole = await of(client, "GET", path)
            bare = await of(client, "HEAD", path)
            assert (bare.status, bare.header("content-length")) == (200, str(len(whole.body)))
            for method in ("OPTIONS", "POST", "get"):
                refused = await of(client, method, path)
                assert (refused.status, refused.header("allow")) == (405, "GET")
        await client.close()
        assert worker.asked == []


async def test_methods_pass_to_workers_as_they_came() -> None:
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        for method in ("OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "QUERY", "post"):
            preflight = ("Origin: http://o", "Access-Control-Request-Method: POST")
            assert (await r.ask(request("/v1/completions", BODY, *preflight, method=method))).status == 200
            assert worker.asked[-1].start == f"{method} /v1/completions HTTP/1.1"
            assert worker.asked[-1].header("access-control-request-method") == "POST"
