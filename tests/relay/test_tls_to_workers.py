"""TLS towards workers, with OpenSSL as the other side: who is believed, what is shown, and how it fails."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from gateway.certified import Authority, Pair
from relay.served import Served, answer_json, serving, working
from relay.tls_peers import address, showing
from warmroute.errors import ConfigError
from warmroute.gateway.relay import Arrival, AttemptFailed, ClientTlsFiles, RelayOptions, RelayServer


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def trusting(authority: Authority, shows: Pair | None = None) -> ClientTlsFiles:
    identity = None if shows is None else (Path(shows.certificate), Path(shows.key))
    return ClientTlsFiles(Path(authority.ca), identity)


class Asking:
    """A relay that sends every request to `worker`, and to `spare` if that fails."""

    def __init__(self, worker: str, spare: str | None = None) -> None:
        self.worker, self.spare = worker, spare
        self.failures: list[AttemptFailed] = []
        self.served: Served | None = None

    async def decide(self, server: RelayServer, arrival: Arrival) -> None:
        ended = await server.forward(arrival.request_id, self.worker)
        if isinstance(ended, AttemptFailed):
            self.failures.append(ended)
            if self.spare is None:
                await server.respond(arrival.request_id, 502, [], b"")
            else:
                await server.forward(arrival.request_id, self.spare)

    @asynccontextmanager
    async def over(self, trusts: ClientTlsFiles | None, options: RelayOptions | None = None) -> AsyncIterator["Asking"]:
        async with serving(self.decide, options) as self.served:
            if trusts is not None:
                self.served.server.set_client_tls(trusts)
            yield self

    async def status(self) -> int:
        """Of the answer to one request, read to its end."""
        assert self.served is not None
        async with self.served.client.post(f"{self.served.url}/v1/completions", data=b"{}") as response:
            await response.read()
            return response.status

    def failure(self) -> AttemptFailed:
        """The only one."""
        (failed,) = self.failures
        return failed


@pytest.mark.parametrize(("host", "of"), [("127.0.0.1", "IP:127.0.0.1"), ("localhost", "DNS:localhost")])
async def test_a_private_authority_is_believed(authority: Authority, host: str, of: str) -> None:
    connections = set()

    async def note(request: web.Request) -> web.StreamResponse:
        connections.add(request.transport)
        assert request.transport is not None
        assert request.transport.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert request.headers["x-forwarded-proto"] == "http", "as the client came"
        return await answer_json(request)

    tls = showing(authority.signed("worker", of))
    tls.set_alpn_protocols(["h2", "http/1.1"])
    async with working(note, tls) as worker, Asking(worker.replace("127.0.0.1", host)).over(trusting(authority)) as it:
        assert [await it.status() for _ in range(3)] == [200] * 3
    assert len(connections) == 1, "it is kept between requests"


@pytest.mark.parametrize("spare", [False, True])
async def test_an_unknown_authority_is_a_failed_attempt(authority: Authority, tmp_path: Path, spare: bool) -> None:
    asked = 0

    async def count(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return await answer_json(request)

    stranger = Authority(tmp_path / "other", "authority").signed("worker")
    async with (
        working(count, showing(stranger)) as worker,
        working(answer_json) as other,
        Asking(worker, other if spare else None).over(trusting(authority)) as it,
    ):
        assert await it.status() == (200 if spare else 502)
        failed = it.failure()
    assert (failed.kind, failed.status) == ("refused", None)
    assert "certificate" in failed.message
    assert asked == 0, "nothing of a request is shown to a stranger"


async def test_the_systems_authorities_do_not_know_a_private_one(authority: Authority) -> None:
    async with working(answer_json, showing(authority.signed("worker"))) as worker, Asking(worker).over(None) as it:
        assert await it.status() == 502
        assert it.failure().kind == "refused"
        assert "certificate" in it.failure().message


@pytest.mark.parametrize("of", ["DNS:worker.example", "IP:127.0.0.2", "DNS:127.0.0.1"])
async def test_a_certificate_for_another_name_is_refused(authority: Authority, of: str) -> None:
    async with (
        working(answer_json, showing(authority.signed("worker", of))) as worker,
        Asking(worker).over(trusting(authority)) as it,
    ):
        assert await it.status() == 502
        assert it.failure().kind == "refused"
        assert "not valid for name" in it.failure().message


async def test_a_worker_is_shown_the_certificate_that_it_asks_for(authority: Authority, tmp_path: Path) -> None:
    seen: list[str] = []

    async def note(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("peercert")["subject"][0][0][1])
        return await answer_json(request)

    clients = Authority(tmp_path / "clients", "clients")
    async with (
        working(note, showing(authority.signed("worker"), clients)) as worker,
        Asking(worker).over(trusting(authority, clients.signed("router"))) as it,
    ):
        assert (await it.status(), seen) == (200, ["router"])


@asynccontextmanager
async def refusing(tls: ssl.SSLContext) -> AsyncIterator[str]:
    """A worker that nobody can please: it tells the reason by an alert, and closes."""

    def refuse(listener: socket.socket) -> None:
        raw, _ = listener.accept()
        with tls.wrap_socket(raw, server_side=True, do_handshake_on_connect=False) as connection:
            connection.settimeout(20)
            with contextlib.suppress(ssl.SSLError):
                connection.do_handshake()
            # What is on its way is read: else the kernel resets, which may overtake the alert.
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusal = asyncio.create_task(asyncio.to_thread(refuse, listener))
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        await refusal


@pytest.mark.parametrize("shows", ["nothing", "a stranger's"])
@pytest.mark.parametrize(("version", "kind"), [(ssl.TLSVersion.TLSv1_2, "refused"), (ssl.TLSVersion.TLSv1_3, "reset")])
async def test_that_a_worker_wants_another_certificate_is_said(
    authority: Authority, tmp_path: Path, version: ssl.TLSVersion, kind: str, shows: str
) -> None:
    """With TLS 1.3 the handshake is over for one side before the other has judged: the request is on its way then."""
    tls = showing(authority.signed("worker"), Authority(tmp_path / "clients", "clients"))
    tls.maximum_version = version
    identity = None if shows == "nothing" else authority.signed("stranger")
    async with refusing(tls) as worker, Asking(worker).over(trusting(authority, identity)) as it:
        assert await it.status() == 502
        assert (it.failure().kind, "alert" in it.failure().message) == (kind, True), it.failure()


async def test_files_that_cannot_be_used_are_named_and_change_nothing(authority: Authority, tmp_path: Path) -> None:
    ours, other, none = authority.signed("router"), authority.signed("other"), tmp_path / "none"
    tls = showing(authority.signed("worker"), authority)
    async with working(answer_json, tls) as worker, Asking(worker).over(trusting(authority, ours)) as it:
        assert it.served is not None
        for files, named in (
            (ClientTlsFiles(none), none),
            (ClientTlsFiles(Path(ours.key)), ours.key),
            (ClientTlsFiles(None, (none, Path(ours.key))), none),
            (ClientTlsFiles(None, (Path(ours.certificate), Path(ours.certificate))), ours.certificate),
            (ClientTlsFiles(Path(authority.ca), (Path(ours.certificate), Path(other.key))), ours.certificate),
        ):
            with pytest.raises(ConfigError) as raised:
                it.served.server.set_client_tls(files)
            assert str(named) in str(raised.value)
        assert await it.status() == 200


async def test_a_worker_in_the_clear_is_no_worker_at_https(authority: Authority) -> None:
    async with (
        working(answer_json) as worker,
        Asking(worker.replace("http:", "https:")).over(trusting(authority)) as it,
    ):
        assert await it.status() == 502
        assert it.failure().kind == "refused"


async def test_a_worker_that_is_silent_in_the_handshake_is_given_up(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        worker = f"https://127.0.0.1:{silent.getsockname()[1]}"
        async with Asking(worker).over(trusting(authority), RelayOptions(connect_timeout_s=0.3)) as it:
            assert await it.status() == 502
            assert it.failure().kind == "connect-timeout"


@asynccontextmanager
async def ending(tls: ssl.SSLContext, properly: bool) -> AsyncIterator[str]:
    """A worker whose answer has no length: it ends with its connection, with TLS's word for the end or without."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhalf of it")
        await writer.drain()
        if properly:
            writer.close()
        else:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(("properly", "end"), [(True, "completed"), (False, "worker-failed")])
async def test_an_answer_that_somebody_cut_off_is_not_taken_as_whole(
    authority: Authority, properly: bool, end: str
) -> None:
    """Whoever sits between the two can end a TCP connection; that the answer is over only the worker can say."""
    async with (
        ending(showing(authority.signed("worker")), properly) as worker,
        Asking(worker).over(trusting(authority)) as it,
    ):
        assert it.served is not None
        _, writer = await asyncio.open_connection(*address(it.served.url))
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
        outcome = await it.served.outcome()
        writer.close()
    assert (outcome.end, outcome.response_bytes) == (end, len("half of it"))
