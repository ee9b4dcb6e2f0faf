"""The whole router over TLS on every side, as it is deployed: its options, renewals by SIGHUP, and a bad file."""

import asyncio
import shutil
import signal
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from e2e.processes import Running, router, until
from gateway.certified import Authority
from gateway.listening_engine import BODY, ListeningEngine
from relay.tls_peers import ask_h2, believing, certificate_at, connected, showing


@dataclass
class StreamingEngine(ListeningEngine):
    """Says half of its answer, and the rest when it may."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path != "/v1/completions":
            return await super().answer(request)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await self.go_on.wait()
        await response.write(b"data: [DONE]\n\n")
        return response


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


async def until_a_worker_is_ready(gate: Running) -> None:
    await until(gate.admin_url, "/warmroute/workers", lambda page: [w["status"] for w in page["workers"]] == ["ready"])


async def reloaded(gate: Running, error: str | None) -> None:
    """SIGHUP, until it is told that this has failed by `error`, or not."""

    def told(page: dict[str, Any]) -> bool:
        last = page["reload"]
        return last is not None and (last["error"] is None if error is None else error in (last["error"] or ""))

    gate.process.send_signal(signal.SIGHUP)
    await until(gate.admin_url, "/warmroute/state", told)


async def test_certificates_are_renewed_under_a_stream_and_a_bad_one_changes_nothing(
    authority: Authority, tmp_path: Path
) -> None:
    shown, renewed = authority.signed("traffic"), authority.signed("renewed")
    first = ssl.PEM_cert_to_DER_cert(await asyncio.to_thread(Path(shown.certificate).read_text))
    second = ssl.PEM_cert_to_DER_cert(await asyncio.to_thread(Path(renewed.certificate).read_text))
    clients = Authority(tmp_path / "clients", "clients")
    engine = StreamingEngine(tls=showing(authority.signed("worker"), authority))
    ours = authority.signed("router")
    flags = ["--tls-cert", shown.certificate, "--tls-key", shown.key, "--tls-client-ca", clients.ca]
    flags += ["--worker-ca", authority.ca, "--worker-client-cert", ours.certificate, "--worker-client-key", ours.key]
    tls = believing(authority, shows=clients.signed("client"))
    async with (
        engine.serve() as worker,
        router([worker], *flags, "--no-watch-config", tokenizer=None) as gate,
        aiohttp.ClientSession() as session,
    ):
        assert gate.url.startswith("https://")
        await until_a_worker_is_ready(gate)
        with pytest.raises(aiohttp.ClientError):
            await session.get(gate.url + "/health", ssl=believing(authority))
        async with session.post(gate.url + "/v1/completions", json=BODY, ssl=tls) as stream:
            assert await stream.content.readany() == b"data: 1\n\n"
            shutil.copy(renewed.certificate, shown.certificate)
            await reloaded(gate, error="cannot be used")
            assert await certificate_at(gate.url, tls) == first, "its key is still the old one"
            shutil.copy(renewed.key, shown.key)
            await reloaded(gate, error=None)
            assert await certificate_at(gate.url, tls) == second
            engine.go_on.set()
            assert await stream.content.read() == b"data: [DONE]\n\n"


async def test_http_2_over_tls(authority: Authority) -> None:
    pair, engine = authority.signed("traffic"), ListeningEngine()
    flags = ("--tls-cert", pair.certificate, "--tls-key", pair.key)
    async with engine.serve() as worker, router([worker], *flags, tokenizer=None) as gate:
        await until_a_worker_is_ready(gate)
        async with connected(gate.url, believing(authority, offers=("h2", "http/1.1"))) as client:
            answers = await ask_h2(client, "/v1/completions", "/v1/nothing")
    assert [answer.headers[":status"] for answer in answers] == ["200", "404"]
    (told,) = engine.headers_at("/v1/completions")
    assert (told["x-forwarded-proto"], told["x-forwarded-host"]) == ("https", "router.example")
