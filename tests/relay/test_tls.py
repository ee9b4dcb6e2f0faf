"""TLS towards clients, with OpenSSL as the other side: protocols, certificates of both, and certificates renewed."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.certified import Authority, Pair
from relay.served import answer_json, serving, stream_events, until, working
from relay.tls_peers import address, ask_h2, believing, certificate_at, connected, files, secured
from warmroute.errors import ConfigError
from warmroute.gateway.relay import Arrival, RelayOptions, RelayServer, TlsFiles

BOTH = ("h2", "http/1.1")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def pair(authority: Authority) -> Pair:
    return authority.signed("traffic")


def pem_of(pair: Pair) -> str:
    return Path(pair.certificate).read_text()


async def answer(server: RelayServer, arrival: Arrival) -> None:
    await server.respond(arrival.request_id, 200, [], b"here")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_request_and_its_answer_pass(authority: Authority, pair: Pair, version: ssl.TLSVersion) -> None:
    seen: list[web.Request] = []

    async def note(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return await answer_json(request)

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    tls = believing(authority, offers=("http/1.1",))
    tls.minimum_version = tls.maximum_version = version
    async with (
        working(note) as worker,
        secured(decide, files(pair)) as served,
        connected(served.url, tls) as client,
    ):
        assert (client.version, client.protocol) == (version.name.replace("_", "."), "http/1.1")
        assert (await client.ask("/v1/completions?a=1")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await served.outcome()).end == "completed"
    (request,) = seen
    assert request.path_qs == "/v1/completions?a=1"
    told = {name: request.headers[f"x-forwarded-{name}"] for name in ("proto", "host", "for")}
    assert told == {"proto": "https", "host": "router.example", "for": "127.0.0.1"}


async def test_http_2_is_spoken_where_both_want_it(authority: Authority, pair: Pair) -> None:
    told: list[tuple[str, str]] = []

    async def by_path(request: web.Request) -> web.StreamResponse:
        told.append((request.headers["x-forwarded-proto"], request.headers["x-forwarded-host"]))
        return await (stream_events if request.path == "/stream" else answer_json)(request)

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    async with (
        working(by_path) as worker,
        secured(decide, files(pair)) as served,
        connected(served.url, believing(authority, offers=BOTH)) as client,
    ):
        assert client.protocol == "h2"
        stream, plain = await ask_h2(client, "/stream", "/v1/completions")
        assert (stream.headers[":status"], stream.headers["content-type"]) == ("200", "text/event-stream")
        assert stream.body.count(b"data: ") == 5
        assert stream.body.endswith(b"data: [DONE]\n\n")
        assert (plain.headers[":status"], b'"echo": "{}"' in plain.body) == ("200", True)
        await until(lambda: [outcome.end for outcome in served.outcomes] == ["completed"] * 2)
    assert told == [("https", "router.example")] * 2


@pytest.mark.parametrize(
    ("offers", "agreed"),
    [((), None), (("http/1.1",), "http/1.1"), (("http/1.1", "h2"), "h2"), (("h3", "http/1.1"), "http/1.1")],
)
async def test_the_protocol_is_one_that_the_client_offers(
    authority: Authority, pair: Pair, offers: tuple[str, ...], agreed: str | None
) -> None:
    async with (
        secured(answer, files(pair)) as served,
        connected(served.url, believing(authority, offers=offers)) as client,
    ):
        assert client.protocol == agreed
        if agreed == "h2":
            assert (await ask_h2(client, "/"))[0].body == b"here"
        else:
            assert (await client.ask("/")).endswith(b"\r\n\r\nhere")


async def test_a_client_that_speaks_nothing_that_is_spoken_here_is_told_so(authority: Authority, pair: Pair) -> None:
    async with secured(answer, files(pair)) as served:
        with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
            await certificate_at(served.url, believing(authority, offers=("spdy/3",)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_clients_may_have_to_show_a_certificate(
    authority: Authority, pair: Pair, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    arrived: list[Arrival] = []

    async def note(server: RelayServer, arrival: Arrival) -> None:
        arrived.append(arrival)
        await answer(server, arrival)

    clients = Authority(tmp_path / "clients", "clients")
    # One of the same name as the right authority, and one signed by who signed the relay's own.
    strangers = [Authority(tmp_path / "other", "clients").signed("stranger"), authority.signed("neighbour"), None]
    async with secured(note, files(pair, clients.ca)) as served:
        for stranger in strangers:
            tls = believing(authority, shows=stranger)
            tls.maximum_version = version
            # With TLS 1.3 a client hears of its refusal only when it reads.
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                async with connected(served.url, tls) as client:
                    await client.ask("/")
        tls = believing(authority, shows=clients.signed("client"))
        tls.maximum_version = version
        async with connected(served.url, tls) as client:
            assert (await client.ask("/")).endswith(b"here")
    assert len(arrived) == len(served.outcomes) == 1


async def test_a_stream_goes_on_while_new_connections_see_a_new_certificate(authority: Authority, pair: Pair) -> None:
    renewed, go_on = authority.signed("renewed"), asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await go_on.wait()
        await response.write(b"data: 2\n\n")
        return response

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    tls = believing(authority, offers=("http/1.1",))
    async with (
        working(stream) as worker,
        secured(decide, files(pair)) as served,
        connected(served.url, tls) as old,
    ):
        assert b"200 OK" in await old.ask("/")
        served.server.set_tls("traffic", files(renewed))
        async with connected(served.url, tls) as new:
            assert new.seen == ssl.PEM_cert_to_DER_cert(pem_of(renewed)) != old.seen
            go_on.set()
            assert (await old.reader.readuntil(b"0\r\n\r\n")).endswith(b"data: 2\n\n\r\n0\r\n\r\n")
            assert b"200 OK" in await old.ask("/again"), "the connection lives longer than its certificate"
            assert b"200 OK" in await new.ask("/")


async def test_a_session_does_not_outlive_the_authority_that_let_it_in(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    """One that is resumed shows no certificate: it would be let in on the word of who is no longer believed."""
    before, after = Authority(tmp_path / "before", "before"), Authority(tmp_path / "after", "after")
    tls = believing(authority, shows=before.signed("client"))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    async with secured(answer, files(pair, before.ca)) as served:
        first = await asyncio.to_thread(open_and_close, served.url, tls, None)
        assert (await asyncio.to_thread(open_and_close, served.url, tls, first))[1], "sessions are resumed"
        served.server.set_tls("traffic", files(pair, after.ca))
        with pytest.raises(OSError, match=r"(?i)alert|reset|eof"):
            await asyncio.to_thread(open_and_close, served.url, tls, first)


def open_and_close(
    url: str, tls: ssl.SSLContext, before: tuple[ssl.SSLSession | None, bool] | None
) -> tuple[ssl.SSLSession | None, bool]:
    """The session, and whether it is the one `before`."""
    session = before[0] if before is not None else None
    with (
        socket.create_connection(address(url), timeout=20) as raw,
        tls.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as connection,
    ):
        return connection.session, bool(connection.session_reused)


async def test_files_that_cannot_be_used_are_named_and_change_nothing(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    other, none, half, nonsense = authority.signed("other"), tmp_path / "none", tmp_path / "half", tmp_path / "nonsense"
    half.write_text(pem_of(other)[:200])
    nonsense.write_text("-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n")
    good_certificate, good_key = Path(other.certificate), Path(other.key)
    wrong: list[tuple[TlsFiles, Path]] = [
        (TlsFiles(none, good_key), none),
        (TlsFiles(half, good_key), half),
        (TlsFiles(nonsense, good_key), nonsense),
        (TlsFiles(good_certificate, none), none),
        (TlsFiles(good_certificate, nonsense), nonsense),
        (TlsFiles(good_certificate, Path(pair.key)), good_certificate),
        (TlsFiles(good_certificate, good_key, half), half),
        (TlsFiles(good_certificate, good_key, nonsense), nonsense),
    ]
    tls = believing(authority)
    async with secured(answer, files(pair)) as served:
        for each, named in wrong:
            with pytest.raises(ConfigError) as raised:
                served.server.set_tls("traffic", each)
            assert str(named) in str(raised.value)
            assert await certificate_at(served.url, tls) == ssl.PEM_cert_to_DER_cert(pem_of(pair))
        shutil.copy(other.certificate, half)
        served.server.set_tls("traffic", TlsFiles(half, good_key))
        assert await certificate_at(served.url, tls) == ssl.PEM_cert_to_DER_cert(pem_of(other))


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"],
    ids=["nothing", "http", "h2c", "half-a-hello"],
)
async def test_who_does_not_come_to_terms_is_closed_and_harms_nobody(
    authority: Authority, pair: Pair, said: bytes
) -> None:
    async with secured(answer, files(pair), RelayOptions(head_timeout_s=0.5)) as served:
        reader, writer = await asyncio.open_connection(*address(served.url))
        writer.write(said)
        async with connected(served.url, believing(authority)) as client:
            assert (await client.ask("/")).endswith(b"here"), "others are served meanwhile"
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(20):
                told = await reader.read()
            # Nothing, or an alert: record of type 21. No word of HTTP, in which a client could take it for an answer.
            assert told[:1] in (b"", b"\x15")
        writer.close()
        await served.outcome()  # the other's, and no second one


async def test_a_client_that_leaves_is_noticed_and_its_worker_too(authority: Authority, pair: Pair) -> None:
    left = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            left.set()
            raise
        return response

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, worker)

    async with working(stream) as worker, secured(decide, files(pair)) as served:
        async with connected(served.url, believing(authority)) as client:
            assert b"200 OK" in await client.ask("/")
            client.writer.close()  # with the alert that says so
            await until(lambda: bool(served.outcomes))
        assert (await served.outcome()).end == "client-gone"
        await asyncio.wait_for(left.wait(), 20)


async def test_a_listener_without_certificates_stays_in_the_clear(authority: Authority, pair: Pair) -> None:
    async with serving(answer) as served:
        served.server.set_tls("admin", files(pair))

        def on_arrival(arrival: Arrival) -> Coroutine[Any, Any, None]:
            return answer(served.server, arrival)

        host, port = await served.server.start("127.0.0.1", 0, on_arrival, listener="admin")
        async with served.client.get(served.url) as response:
            assert await response.read() == b"here"
        async with connected(f"https://{host}:{port}", believing(authority)) as client:
            assert (await client.ask("/")).endswith(b"here")
