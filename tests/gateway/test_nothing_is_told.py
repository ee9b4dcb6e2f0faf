"""Whatever fails, neither the log nor an answer on the traffic port tells an address, a key or a word of a prompt."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.listening_engine import MODEL, ListeningEngine
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.keys import Role, new_key
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.relay import RelayOptions
from warmroute.gateway.serve import Gateway, running_gateway
from warmroute.worker import WorkerSpec

_HOST = "127.77.77.77"
_WORD = "xylophone"
_WORKER_KEY = "wk-sentinel-of-workers"
_GUESSED = "sk-sentinel-of-a-client"
_CHAT = {"model": MODEL, "messages": [{"role": "user", "content": f"my {_WORD} is blue"}], "max_tokens": 3}
_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndata\r\n"
_BAD_LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{}"
_FAULTS = {
    "closes": b"",
    "no HTTP": b"SSH-2.0-OpenSSH_9.7\r\n",
    "breaks off a stream": _STREAM,
    "breaks off a body": _BAD_LENGTH,
    "endless head": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000,
}


@asynccontextmanager
async def broken(fault: bytes) -> AsyncIterator[str]:
    """A worker that looks well and answers every request with `fault`, then closes; its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            models = json.dumps({"data": [{"id": MODEL, "max_model_len": 4096}]}).encode()
            page = _OK if head.startswith(b"GET /health") else b"HTTP/1.1 404 no\r\ncontent-length: 0\r\n\r\n"
            if head.startswith(b"GET /v1/models"):
                page = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(models), models)
            writer.write(fault if head.startswith(b"POST /v1") else page)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the router has what it wanted
        writer.close()

    server = await asyncio.start_server(answer, _HOST, 0)
    async with server:
        yield f"http://{_HOST}:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def routed(
    specs: Sequence[WorkerSpec], access: AccessOptions, **options: Any
) -> AsyncIterator[tuple[Gateway, aiohttp.ClientSession]]:
    config = ServeConfig(
        port=0,
        probe_interval_s=0.05,
        grace_s=0.1,
        seed=1,
        state_file="",
        tokenizer=("warmroute-tiny",),
        **options,
    )
    relay = RelayOptions(first_byte_timeout_s=0.5, connect_timeout_s=0.5, max_body_bytes=100_000)
    configuration = Configuration(config, relay, tuple(specs), access=access)
    async with running_gateway(configuration) as gateway, aiohttp.ClientSession() as client:
        async with asyncio.timeout(10):
            while any(worker.status.value == "starting" for worker in gateway.router.table):
                await asyncio.sleep(0.01)
        yield gateway, client


async def answers(gateway: Gateway, client: aiohttp.ClientSession, key: str | None = None) -> list[str]:
    """What clients are told, headers included, about many kinds of requests."""
    bodies = (
        json.dumps(_CHAT),
        json.dumps(_CHAT | {"stream": True}),
        json.dumps(_CHAT | {"model": "unknown"}),
        json.dumps(_CHAT)[:-5],
        f"[{_WORD}",
        json.dumps(_CHAT | {"messages": _WORD}),
        json.dumps(_CHAT | {"padding": "x" * 100_000}),
    )
    headers = {"content-type": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})
    told = []
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/completions"):
        for body in bodies:
            told.append(await answer(client, "POST", gateway.url + path, data=body, headers=headers))
    for path in ("/ready", "/health", "/v1/models", "/warmroute/workers", "/metrics", f"/{_WORD}"):
        told.append(await answer(client, "GET", gateway.url + path, headers=headers))
    return told


async def answer(client: aiohttp.ClientSession, method: str, url: str, **options: Any) -> str:
    try:
        async with client.request(method, url, **options) as response:
            return f"{response.status} {dict(response.headers)} {await response.text()}"
    except aiohttp.ClientPayloadError:
        return "broken off"


def ours(caplog: pytest.LogCaptureFixture) -> str:
    """What the router has logged, traces included."""
    form = logging.Formatter()
    return "\n".join(form.format(each) for each in caplog.records if each.name.startswith("warmroute"))


def assert_untold(text: str, *more: str) -> None:
    for secret in (_HOST, _WORD, _WORKER_KEY, _GUESSED, *more):
        assert secret not in text.replace(f"/{_WORD}", "")


@pytest.mark.parametrize("fault", list(_FAULTS))
async def test_of_workers_that_fail(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        broken(_FAULTS[fault]) as one,
        broken(_FAULTS[fault]) as other,
        routed((WorkerSpec(one), WorkerSpec(other, kv_events=f"tcp://{_HOST}:9")), AccessOptions()) as (
            gateway,
            client,
        ),
    ):
        told = await answers(gateway, client, _GUESSED)
        reasons = [worker.status_reason for worker in gateway.router.table]
    assert any("50" in each[:3] or each.startswith(("200", "broken")) for each in told)
    assert_untold("\n".join((*told, *reasons, ours(caplog))))


async def test_of_workers_that_are_not_there(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    specs = [
        WorkerSpec(f"http://{_HOST}:9"),
        WorkerSpec(f"https://{_HOST}:9"),
        WorkerSpec(f"http://{_HOST}:9/base", model=MODEL),
        WorkerSpec("http://sentinel-name.invalid:8000", model=MODEL),
    ]
    async with routed(specs, AccessOptions()) as (gateway, client):
        told = await answers(gateway, client)
        reasons = [worker.status_reason for worker in gateway.router.table]
    assert all(reason for reason in reasons)
    assert_untold("\n".join((*told, *reasons, ours(caplog))), "sentinel-name")


async def test_of_pages_that_are_wrong(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    elsewhere = {"location": f"http://{_HOST}:9/"}
    source = {"0": {"publisher": "zmq", "endpoint": f"tcp://{_HOST}:9"}}
    wrong: list[dict[str, web.Response]] = [
        {"/health": web.Response(status=307, headers=elsewhere)},
        {"/health": web.Response(status=500, text=_HOST)},
        {"/v1/models": web.Response(status=401, text=_HOST)},
        {"/v1/models": web.Response(text=f"<html>{_HOST}"), "/metrics": web.Response(body=b"\xff" * 100)},
        {"/kv_event_sources": web.json_response(source)},
        {"/kv_event_sources": web.json_response({"0": {"endpoint": "tcp://169.254.169.254:1"}})},
    ]
    for pages in wrong:
        engine = ListeningEngine(pages=pages, host=_HOST)
        async with engine.serve() as url, routed((WorkerSpec(url, model=MODEL),), AccessOptions()) as (gateway, client):
            told = await answers(gateway, client)
            reasons = [worker.status_reason for worker in gateway.router.table]
        assert_untold("\n".join((*told, *reasons, ours(caplog))), "169.254")


async def test_of_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret, key = new_key("team-a", Role.TRAFFIC)
    (tmp_path / "keys").write_text(key.line)
    (tmp_path / "worker-keys").write_text(_WORKER_KEY)
    access = AccessOptions(api_keys=str(tmp_path / "keys"), worker_api_key_file=str(tmp_path / "worker-keys"))
    engine = ListeningEngine(key="another", host=_HOST)
    async with engine.serve() as url, routed((WorkerSpec(url, model=MODEL),), access) as (gateway, client):
        for shown in (secret, _GUESSED):
            told = await answers(gateway, client, shown)
            assert_untold("\n".join((*told, ours(caplog))), secret)
        (tmp_path / "keys").write_text(_GUESSED)
        assert (await gateway.reloader.reload("a test")).error is not None
    assert_untold(ours(caplog), secret)


async def test_whoever_wants_to_see_addresses_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    engine = ListeningEngine(host=_HOST)
    async with (
        engine.serve() as url,
        routed((WorkerSpec(url),), AccessOptions(show_addresses=True)) as (gateway, client),
    ):
        told = await answers(gateway, client)
    assert f"'x-warmroute-worker': '{url}'" in told[0]
    assert f"worker {url} is ready" in ours(caplog)
