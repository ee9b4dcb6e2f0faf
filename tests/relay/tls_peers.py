"""The other side of TLS, by OpenSSL: clients that speak HTTP/1.1 and HTTP/2 byte by byte, and contexts for workers."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h2.connection
import h2.events

from gateway.certified import Authority, Pair
from relay.served import Decide, Served, serving
from warmroute.gateway.relay import RelayOptions, TlsFiles

_PIECE = 1 << 16


def files(pair: Pair, client_ca: str | None = None) -> TlsFiles:
    """What a listener is given."""
    return TlsFiles(Path(pair.certificate), Path(pair.key), None if client_ca is None else Path(client_ca))


def believing(authority: Authority, shows: Pair | None = None, offers: tuple[str, ...] = ()) -> ssl.SSLContext:
    """A client that believes `authority`, shows a certificate if it has one, and offers protocols by ALPN."""
    context = ssl.create_default_context(cafile=authority.ca)
    if shows is not None:
        context.load_cert_chain(shows.certificate, shows.key)
    if offers:
        context.set_alpn_protocols(offers)
    return context


def showing(pair: Pair, clients: Authority | None = None) -> ssl.SSLContext:
    """A worker that shows `pair`, and asks for certificates of `clients`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    if clients is not None:
        context.load_verify_locations(clients.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@asynccontextmanager
async def secured(decide: Decide, with_files: TlsFiles, options: RelayOptions | None = None) -> AsyncIterator[Served]:
    """As `serving`, over TLS."""
    async with serving(decide, options) as served:
        served.server.set_tls("traffic", with_files)
        served.url = served.url.replace("http:", "https:")
        yield served


def address(url: str) -> tuple[str, int]:
    """Host and port."""
    host, port = url.split("//")[1].split(":")
    return host, int(port)


@dataclass(slots=True)
class Client:
    """One connection to the relay."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def protocol(self) -> str | None:
        """What both sides agreed on by ALPN."""
        agreed = self._tls().selected_alpn_protocol()
        assert agreed is None or isinstance(agreed, str)
        return agreed

    @property
    def version(self) -> str | None:
        """The version of TLS, such as `TLSv1.3`."""
        version = self._tls().version()
        assert version is None or isinstance(version, str)
        return version

    @property
    def seen(self) -> bytes:
        """The certificate that the relay shows, as DER."""
        shown = self._tls().getpeercert(binary_form=True)
        assert isinstance(shown, bytes)
        return shown

    def _tls(self) -> ssl.SSLObject:
        found = self.writer.get_extra_info("ssl_object")
        assert isinstance(found, ssl.SSLObject)
        return found

    async def ask(self, path: str) -> bytes:
        """POST a few bytes by HTTP/1.1; the answer's head and the first piece of its body, as they came."""
        self.writer.write(f"POST {path} HTTP/1.1\r\nhost: router.example\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        return head + await self.reader.read(_PIECE)


@asynccontextmanager
async def connected(url: str, tls: ssl.SSLContext) -> AsyncIterator[Client]:
    """A client whose handshake is over."""
    client = Client(*await asyncio.open_connection(*address(url), ssl=tls))
    try:
        yield client
    finally:
        client.writer.transport.abort()


async def certificate_at(url: str, tls: ssl.SSLContext) -> bytes:
    """What is shown to a new connection, as DER."""
    async with connected(url, tls) as client:
        return client.seen


@dataclass(slots=True)
class Answer:
    """Of one HTTP/2 stream."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


async def ask_h2(client: Client, *paths: str) -> list[Answer]:
    """POST a few bytes to each path by HTTP/2, all at once; the whole answers."""
    peer = h2.connection.H2Connection()
    peer.initiate_connection()
    answers = {}
    for path in paths:
        stream = peer.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "https"), (":authority", "router.example"), (":path", path)]
        peer.send_headers(stream, head)
        peer.send_data(stream, b"{}", end_stream=True)
        answers[stream] = Answer()
    client.writer.write(peer.data_to_send())
    open_streams = set(answers)
    while open_streams:
        piece = await client.reader.read(_PIECE)
        assert piece, "the connection ended before the answers"
        for event in peer.receive_data(piece):
            _heard(peer, event, answers, open_streams)
        client.writer.write(peer.data_to_send())
    return list(answers.values())


def _heard(
    peer: h2.connection.H2Connection, event: h2.events.Event, answers: dict[int, Answer], open_streams: set[int]
) -> None:
    match event:
        case h2.events.ResponseReceived():
            answers[event.stream_id].headers = {name.decode(): value.decode() for name, value in event.headers}
        case h2.events.DataReceived():
            answers[event.stream_id].body += event.data
            peer.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        case h2.events.StreamEnded():
            open_streams.discard(event.stream_id)
        case h2.events.StreamReset() | h2.events.ConnectionTerminated():
            raise AssertionError(f"the relay ended it: {event}")
