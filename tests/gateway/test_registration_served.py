"""Attempts to have a running router ask what it should not, and to have an operator's browser change it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.listening_engine import BODY, ListeningEngine, gated, until_all_are
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.serve import Gateway
from warmroute.worker import WorkerStatus

_WORKERS = "/warmroute/workers"


async def post(client: aiohttp.ClientSession, url: str, **options: Any) -> int:
    async with client.post(url, **options) as response:
        return response.status


@asynccontextmanager
async def resolving(monkeypatch: pytest.MonkeyPatch, names: Mapping[str, str]) -> AsyncIterator[None]:
    """Within it these names resolve to these addresses."""

    async def resolve(
        self: object, host: str, port: int = 0, family: int = socket.AF_INET
    ) -> list[Mapping[str, object]]:
        found = {"hostname": host, "host": names[host], "port": port, "family": family, "proto": 0, "flags": 0}
        return [found]

    with monkeypatch.context() as patched:
        patched.setattr(aiohttp.DefaultResolver, "resolve", resolve)
        yield


@pytest.mark.parametrize(
    "worker",
    [
        {"url": "http://169.254.169.254"},
        {"url": "http://[::ffff:169.254.169.254]:80"},
        {"url": "http://2852039166"},
        {"url": "http://0.0.0.0:8000"},
        {"url": "http://10.0.0.5:8000", "kv_events": "tcp://169.254.169.254:80"},
        {"url": "http://10.0.0.5:8000", "kv_events": "ipc:///var/run/docker.sock"},
    ],
)
async def test_no_worker_can_be_added_where_none_may_be(worker: dict[str, str]) -> None:
    async with gated() as (gateway, client):
        assert await post(client, gateway.admin_url + _WORKERS, json=worker) == 400
        assert len(gateway.router.table) == 0


async def test_nobody_adds_workers_on_the_traffic_port() -> None:
    async with gated() as (gateway, client):
        for page in (_WORKERS, "/warmroute/workers/", "/warmroute/state", "/metrics", "/warmroute/workers/drain"):
            assert await post(client, gateway.url + page, json={"url": "http://127.0.0.1:9"}) == 404
            async with client.get(gateway.url + page) as response:
                assert response.status == 404
        assert len(gateway.router.table) == 0


async def test_requests_for_workers_are_not_taken_where_operators_look() -> None:
    engine = ListeningEngine()
    async with engine.serve(), gated(engine) as (gateway, client):
        await until_all_are(gateway)
        assert await post(client, gateway.admin_url + "/v1/completions", json=BODY) == 404
    assert engine.headers_at("/v1/completions") == []


async def test_a_name_that_resolves_where_no_worker_may_be_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async with resolving(monkeypatch, {"worker-0": "169.254.169.254"}), gated() as (gateway, client):
        assert await post(client, gateway.admin_url + _WORKERS, json={"url": "http://worker-0:8000"}) == 201
        await until_all_are(gateway, WorkerStatus.DOWN)
        (worker,) = gateway.router.table
        assert "--allow-workers" in worker.status_reason
        assert await post(client, gateway.url + "/v1/completions", json=BODY) == 503


async def test_a_redirect_is_not_followed() -> None:
    elsewhere = ListeningEngine()
    async with elsewhere.serve():
        pages = {
            page: web.Response(status=307, headers={"location": elsewhere.url + page})
            for page in ("/health", "/metrics")
        }
        engine = ListeningEngine(pages=pages)
        async with engine.serve(), gated(engine) as (gateway, _):
            await until_all_are(gateway, WorkerStatus.DOWN)
            engine.pages.pop("/health")
            await until_all_are(gateway)
        assert elsewhere.asked == []


async def test_a_page_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmroute.gateway.discovery._LARGEST_PAGE", 1000)
    engine = ListeningEngine(pages={"/metrics": web.Response(body=b"x" * 1001)})
    async with engine.serve(), gated(engine) as (gateway, _):
        await until_all_are(gateway, WorkerStatus.DOWN)
        (worker,) = gateway.router.table
        assert "more than" in worker.status_reason


async def test_a_worker_does_not_send_the_router_elsewhere_for_its_events() -> None:
    told = {"0": {"publisher": "zmq", "endpoint": "tcp://169.254.169.254:80"}}
    engine = ListeningEngine(pages={"/kv_event_sources": web.json_response(told)})
    async with engine.serve(), gated(engine) as (gateway, _):
        await until_all_are(gateway)
        (member,) = gateway.fleet.members
        assert list(member.streams) == []


async def test_what_is_allowed_can_be_told() -> None:
    engine = ListeningEngine()
    access = AccessOptions(allow_workers=("127.0.0.0/8",))
    async with engine.serve(), gated(engine, access=access) as (gateway, client):
        await until_all_are(gateway)
        assert await post(client, gateway.admin_url + _WORKERS, json={"url": "http://10.0.0.5:8000"}) == 400
        assert await post(client, gateway.admin_url + _WORKERS, json={"url": "http://127.0.0.2:9"}) == 201


_FORGED: list[dict[str, Any]] = [
    {"data": "url=http://127.0.0.1:9", "headers": {"content-type": "application/x-www-form-urlencoded"}},
    {"data": b'{"url": "http://127.0.0.1:9"}', "headers": {"content-type": "text/plain;charset=UTF-8"}},
    {"data": b'{"url": "http://127.0.0.1:9"}', "headers": {"content-type": "multipart/form-data; boundary=x"}},
    {"json": {"url": "http://127.0.0.1:9"}, "headers": {"origin": "https://evil.example"}},
    {"json": {"url": "http://127.0.0.1:9"}, "headers": {"origin": "null"}},
    {"json": {"url": "http://127.0.0.1:9"}, "headers": {"sec-fetch-site": "cross-site"}},
    {"json": {"url": "http://127.0.0.1:9"}, "headers": {"host": "rebound.evil.example:8081"}},
]


@pytest.mark.parametrize("forged", _FORGED)
@pytest.mark.parametrize("joined", [False, True])
async def test_no_page_of_another_site_changes_anything(forged: dict[str, Any], joined: bool) -> None:
    access = AccessOptions(admin_port="same" if joined else None)
    async with gated(access=access) as (gateway, client):
        assert await post(client, gateway.admin_url + _WORKERS, **forged) in (403, 415, 421)
        assert len(gateway.router.table) == 0
        async with client.options(gateway.admin_url + _WORKERS, headers={"origin": "https://evil.example"}) as response:
            assert (response.status >= 400, "access-control-allow-origin" in response.headers) == (True, False)


async def raw(gateway: Gateway, head: str) -> int:
    """The status of the answer to a request that is this head, sent to the router's own pages."""
    host, port = gateway.admin_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    line = await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    await writer.wait_closed()
    return int(line.split()[1])


async def test_a_request_without_a_body_says_that_no_form_has_sent_it() -> None:
    engine = ListeningEngine()
    async with engine.serve(), gated(engine) as (gateway, _):
        page = f"POST /warmroute/workers/drain?url={engine.url} HTTP/1.1\nhost: localhost\ncontent-length: 0"
        assert await raw(gateway, page) == 415
        assert await raw(gateway, page + "\nx-warmroute-admin: 1") == 200


async def test_a_name_that_was_made_to_lead_here_sees_no_page() -> None:
    async with gated() as (gateway, _):
        for host, status in (("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:8081", 200), ("evil.example", 421)):
            assert await raw(gateway, f"GET /warmroute/state HTTP/1.1\nhost: {host}") == status
