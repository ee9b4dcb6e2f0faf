"""What a whole router makes of connections, headers, keys and bodies. Each test names the report that it comes from.

Streams that are cut, aborted or many are in `test_streams.py`.
"""

import asyncio
import gzip
import json
import logging
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from field_failures.lying import BODY, STREAM_HEAD, STREAMED, Asked, LyingWorker, answer, before
from field_failures.test_streams import figures
from field_failures.wire import LAST_CHUNK, chunked, request
from gateway.listening_engine import BODY as ASKED
from gateway.listening_engine import MODEL, ListeningEngine, gated, until_all_are
from gateway.routed import until
from warmroute.admission import FailoverOptions
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.keys import Role, new_key
from warmroute.gateway.relay import RelayOptions
from warmroute.worker import WorkerStatus

ASK = request(body=BODY)
PATIENT = FailoverOptions(slow_start_s=0.0, retry_floor_per_s=1e6)
ANSWER = json.dumps({"choices": [{"text": "\u00e9" * 500}], "usage": {"prompt_tokens": 3, "completion_tokens": 5}})


# 53
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_compressed_answer_keeps_its_bytes_and_its_label(streamed: bool) -> None:
    """vllm-project/production-stack#827: the body was decompressed, and its label went on."""
    packed = gzip.compress(b"data: 1\n\ndata: [DONE]\n\n" if streamed else ANSWER.encode())
    label = "Content-Encoding: gzip"
    in_chunks = STREAM_HEAD.replace(b"\r\n", f"\r\n{label}\r\n".encode(), 1) + chunked(packed[:9], packed[9:])

    async def answers_packed(asked: Asked) -> None:
        await asked.send(in_chunks + LAST_CHUNK if streamed else answer(packed, "200 OK", label))

    worker = LyingWorker(answers_packed)
    async with worker.serve(), before(worker) as r:
        message = await r.ask(request("/v1/completions", STREAMED, "Accept-Encoding: gzip, br;q=0.1"))
        assert (message.header("content-encoding"), message.body) == ("gzip", packed)
        assert worker.asked[0].header("accept-encoding") == "gzip, br;q=0.1", "which coding, client and worker agree"
        url = r.gateway.url + "/v1/completions"
        async with aiohttp.ClientSession() as session, session.post(url, data=STREAMED) as response:
            assert await response.read() == gzip.decompress(packed)


# 54
@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "422 Unprocessable", "500 Oops", "503 Busy"])
@pytest.mark.parametrize("in_chunks", [False, True])
async def test_an_error_in_answer_to_a_stream_comes_whole_and_unchanged(status: str, in_chunks: bool) -> None:
    """sgl-project/sglang PR#27523: a rewritten body under the worker's Content-Length was cut short."""
    body = json.dumps({"error": {"message": "too long: \u00e9" * 100, "code": 400}}).encode()
    whole = answer(body, status)
    if in_chunks:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        whole = head.encode() + chunked(body[:50], body[50:]) + LAST_CHUNK

    async def refuses(asked: Asked) -> None:
        await asked.send(whole)

    worker = LyingWorker(refuses)
    async with worker.serve(), before(worker) as r:
        message = await r.ask(request(body=STREAMED))
        assert (message.status, message.whole, message.body) == (int(status[:3]), True, body)
        assert message.header("content-type") == "application/json"
        assert message.header("content-length") in (None, str(len(body)))


# 58
async def test_a_worker_that_closes_after_each_answer_loses_no_request() -> None:
    """sgl-project/sglang#20851: connections that the worker had dropped were kept, and requests were reset."""

    async def answers_and_closes(asked: Asked) -> None:
        await asked.send(answer())
        asked.close()

    worker = LyingWorker(answers_and_closes)
    async with worker.serve(), before(worker, failover=PATIENT) as r:
        client = await r.client()
        for _ in range(50):
            await client.send(ASK)
            assert (await client.answer()).status == 200
        assert len(worker.asked) == 50, "each came once"
        assert r.gateway.relay.counts.failed_attempts == 0
        await client.close()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_connection_that_the_worker_dropped_at_rest_costs_one_fresh_one(how: str) -> None:
    """As above: the worker drops what rests, and the next request comes just then."""
    kept: list[Asked] = []

    async def answers_and_keeps(asked: Asked) -> None:
        await asked.send(answer())
        kept.append(asked)

    worker = LyingWorker(answers_and_keeps)
    async with worker.serve(), before(worker) as r:
        for number in range(10):
            assert (await r.ask(ASK)).status == 200
            assert (len(worker.asked), worker.connections) == (number + 1, number + 1)
            getattr(kept.pop(), how)()


async def test_a_request_that_died_with_a_kept_connection_is_sent_once_more_and_not_twice() -> None:
    """As above: the request is on its way already when the worker drops the connection; nothing has come back."""
    fresh = set[int]()
    drop_fresh_ones = False

    async def drops_kept_ones(asked: Asked) -> None:
        known = id(asked.writer) in fresh
        fresh.add(id(asked.writer))
        if known or drop_fresh_ones:
            asked.close()
        else:
            await asked.send(answer())

    worker = LyingWorker(drops_kept_ones)
    async with worker.serve(), before(worker, failover=PATIENT) as r:
        assert [(await r.ask(ASK)).status for _ in range(2)] == [200, 200]
        assert len(worker.asked) == 3, "the second request came twice: on the kept connection and on a fresh one"
        drop_fresh_ones = True
        assert (await r.ask(ASK)).status == 502
        assert len(worker.asked) == 5, "once on the kept connection, once on a fresh one, and no more"


async def test_a_connection_at_rest_is_closed_by_the_router_first() -> None:
    """As above: vLLM and SGLang close after 5 s, so the router must not keep them so long."""
    assert RelayOptions().pool_idle_s < 5.0
    worker = LyingWorker()

    async def answers_and_watches(asked: Asked) -> None:
        await asked.send(answer())
        await worker.see_it_go(asked)

    worker.script = answers_and_watches
    async with worker.serve(), before(worker, relay=RelayOptions(pool_idle_s=0.05)) as r:
        assert (await r.ask(ASK)).status == 200
        await until(lambda: worker.gone == 1)


# 98
async def test_workers_are_looked_at_after_a_reload_as_before() -> None:
    """The health task died silently on a reload; a worker that falls ill later must be noticed all the same."""
    engine, told = ListeningEngine(), list[Configuration]()
    async with engine.serve(), gated(engine, read=lambda: told[0]) as (gateway, client):
        await until_all_are(gateway)
        for interval_s in (0.03, 0.04, 0.05):
            now = gateway.reloader.current
            told[:] = [replace(now, serve=replace(now.serve, probe_interval_s=interval_s))]
            assert (await gateway.reloader.reload("a test")).error is None
        looks = len(engine.headers_at("/health"))
        await until(lambda: len(engine.headers_at("/health")) > looks + 2)
        engine.pages["/health"] = web.Response(status=503)
        await until_all_are(gateway, WorkerStatus.DOWN)
        engine.pages.clear()
        await until_all_are(gateway)
        async with client.get(gateway.admin_url + "/metrics") as response:
            assert "warmroute_worker_look_age_seconds" in await response.text()


# 99
@pytest.mark.parametrize("target", ["/v1/completions", "http://elsewhere.example:81/v1/completions"])
async def test_a_worker_gets_its_own_host_and_not_the_clients(target: str) -> None:
    """The client's Host went to the worker, whose ingress or virtual host then knew nothing of it."""
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        assert (await r.ask(request(target, BODY, host="router.example"))).status == 200
        (asked,) = worker.asked
        assert (asked.header("host"), asked.target) == (worker.url.removeprefix("http://"), "/v1/completions")
        assert asked.header("x-forwarded-host") == "router.example"


# 100
async def test_where_the_router_has_no_keys_the_clients_goes_on_once_and_as_it_is() -> None:
    """Authorization was dropped, or doubled."""
    worker = LyingWorker()
    async with worker.serve(), before(worker) as r:
        await r.ask(request("/v1/completions", BODY, "authorization:   Bearer sk-1", "x-api-key: k"))
        (asked,) = worker.asked
        assert (asked.header("authorization"), asked.header("x-api-key")) == ("Bearer sk-1", "k")


async def test_where_the_router_has_keys_each_worker_gets_its_own_and_never_a_clients(tmp_path: Path) -> None:
    """A client's key leaked to workers that have their own; one worker's key must not leak to another either."""
    (first, line), (second, other) = new_key("a", Role.TRAFFIC), new_key("b", Role.TRAFFIC)
    workers = [LyingWorker(), LyingWorker(), LyingWorker()]
    ours, theirs = tmp_path / "keys", tmp_path / "worker-keys"
    ours.write_text(f"{line.line}\n{other.line}\n")
    access = AccessOptions(api_keys=str(ours), worker_api_key_file=str(theirs))
    async with workers[0].serve(), workers[1].serve(), workers[2].serve():
        theirs.write_text(f"{workers[0].url} zero\n{workers[1].url} one\n")
        async with before(*workers, access=access, failover=PATIENT) as r:
            shown = [f"Authorization: Bearer {first}", f"AUTHORIZATION: Bearer {second}", f"x-api-key: {first}"]
            while not all(worker.asked for worker in workers):
                assert (await r.ask(request("/v1/completions", BODY, *shown))).status == 200
                assert (await r.ask(ASK)).status == 401
    for worker, expected in zip(workers, (["Bearer zero"], ["Bearer one"], []), strict=True):
        assert {tuple(asked.all("authorization")) for asked in worker.asked} == {tuple(expected)}
        assert all(asked.all("x-api-key") == [] for asked in worker.asked)
        assert first not in str(worker.asked)
        assert second not in str(worker.asked)


# 101
async def test_a_worker_that_is_protected_by_a_key_is_asked_with_it(tmp_path: Path) -> None:
    """Introspection answered 401, and the router silently went on with its defaults."""
    file = tmp_path / "worker-keys"
    file.write_text("engine-key\n")
    engine = ListeningEngine(key="engine-key")
    access = AccessOptions(worker_api_key_file=str(file))
    async with engine.serve(), gated(engine, access=access) as (gateway, _):
        await until_all_are(gateway)
        (worker,) = gateway.router.table
        assert (set(worker.models), worker.facts.max_model_len) == ({MODEL}, 4096)
        assert {headers.get("authorization") for _, headers in engine.asked} == {"Bearer engine-key"}


async def test_without_its_key_a_protected_worker_is_told_of_loudly(caplog: pytest.LogCaptureFixture) -> None:
    """As above: the failure stands in the log and beside the worker for whoever looks; no request is lost for it."""
    caplog.set_level(logging.WARNING)
    engine = ListeningEngine(key="engine-key")
    async with engine.serve(), gated(engine, model=MODEL) as (gateway, client):
        await until_all_are(gateway)
        await until(lambda: len(engine.headers_at("/v1/models")) > 2)
        async with client.get(gateway.admin_url + "/warmroute/workers") as response:
            (shown,) = (await response.json())["workers"]
        assert "--worker-api-key-file" in shown["reason"]
        assert sum("--worker-api-key-file" in record.getMessage() for record in caplog.records) == 1
        key = {"authorization": "Bearer engine-key"}
        async with client.post(gateway.url + "/v1/completions", json=ASKED, headers=key) as response:
            assert response.status == 200


# 49, 91
async def test_looks_at_a_worker_do_not_change_what_is_counted_on_it() -> None:
    """A health check set the load to zero; then everything went to one worker."""
    going_on, worker = asyncio.Event(), LyingWorker()

    async def waits(asked: Asked) -> None:
        await going_on.wait()
        await asked.send(answer())

    worker.script = waits
    async with worker.serve(), before(worker) as r:
        tasks = [asyncio.create_task(r.ask(ASK)) for _ in range(5)]
        await until(lambda: len(worker.asked) == 5)
        (member,) = r.gateway.fleet.members
        looked_at = member.prober.last_look_at
        await until(lambda: member.prober.last_look_at != looked_at)
        assert await figures(r, "warmroute_worker_requests") == {"warmroute_worker_requests": 5}
        going_on.set()
        assert [message.status for message in await asyncio.gather(*tasks)] == [200] * 5
