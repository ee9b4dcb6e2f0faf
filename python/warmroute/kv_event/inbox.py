"""A subscription's connection to its publisher, kept up on an asyncio loop: what it brings, and when it comes and goes.

The stream is read here and taken apart in Rust (`crates/kv-event/src/zmtp.rs` says why), not by libzmq. A little more
is taken in than is being read; what comes beyond waits in the connection and at the publisher, which keeps thousands of
messages (vLLM 100,000) before it drops some, and numbers them, so that a loss is seen.
"""

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import urlsplit

from warmroute._native import ZmtpSubscriber
from warmroute.errors import ConfigError
from warmroute.kv_event.frames import SLICE_BYTES, SLICE_MESSAGES
from warmroute.kv_event.listener import EventSource

_log = logging.getLogger(__name__)

# Between two attempts to connect; an engine that starts takes minutes, and one that was restarted should be heard soon.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_HANDSHAKE_S = 10.0
# Two slices. More would only be carried from the processor's caches to memory and back: a flood that was taken in as it
# came filled hundreds of megabytes, and a third of its time went into them.
_MOST_WAITING = 2 * SLICE_BYTES

_Connect = Callable[[Callable[[], asyncio.Protocol]], Awaitable[tuple[asyncio.BaseTransport, asyncio.Protocol]]]


class Inbox:
    """Everything that comes from one publisher. Made, used and closed on one loop.

    Raises ConfigError where the endpoint is no address.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._connect = _connector(source.endpoint)
        self._messages: deque[tuple[bytes, ...]] = deque()
        self._waiting = 0
        self._connection: _Connection | None = None
        self._changes: list[bool] = []
        self._news = asyncio.Event()
        self._warned = False
        self._task = asyncio.create_task(self._stay_connected(), name=f"connection to {source.endpoint}")

    async def close(self) -> None:
        """Disconnects; what has not been read is lost."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def wait(self) -> None:
        """Returns when there is something to read; at once where there is."""
        await self._news.wait()

    def messages(self) -> list[tuple[bytes, ...]]:
        """The live messages that are here, at most a slice of them."""
        taken: list[tuple[bytes, ...]] = []
        size = 0
        while self._messages and len(taken) < SLICE_MESSAGES and size < SLICE_BYTES:
            frames = self._messages.popleft()
            taken.append(frames)
            size += len(frames[-1])
        self._waiting -= size
        if self._connection is not None and self._waiting <= _MOST_WAITING // 2:
            self._connection.resume()
        return taken

    def has_messages(self) -> bool:
        """Whether more are here."""
        return bool(self._messages)

    def connections(self) -> list[bool]:
        """What has become of the connection since the last call: each time it was made (True) or lost."""
        changes, self._changes = self._changes, []
        if not self._messages:
            self._news.clear()
        return changes

    async def _stay_connected(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            self._connection = connection = _Connection(self)
            transport: asyncio.BaseTransport | None = None
            try:
                transport, _ = await self._connect(lambda: connection)  # noqa: B023  called before the next round
                async with asyncio.timeout(_HANDSHAKE_S):
                    await connection.subscribed
                pause_s = _FIRST_PAUSE_S
                await connection.lost
            except (OSError, TimeoutError):
                # Nobody there yet, or no more: the state says "not connected", and it is tried again.
                pass
            finally:
                if transport is not None:
                    transport.close()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def changed(self, connected: bool) -> None:
        """The connection was made or lost."""
        self._changes.append(connected)
        self._news.set()

    def came(self, messages: list[tuple[bytes, ...]]) -> bool:
        """The connection brought messages; whether it may bring more."""
        self._messages.extend(messages)
        self._waiting += sum(len(frames[-1]) for frames in messages)
        self._news.set()
        return self._waiting < _MOST_WAITING

    def refused(self, reason: str) -> None:
        """Whoever listens there is no publisher that can be subscribed to. Said once: it is tried again for ever."""
        if not self._warned:
            self._warned = True
            _log.warning("the KV-event endpoint of %s: %s; is it the right port?", self._source.shown, reason)

    @property
    def topic(self) -> bytes:
        return self._source.topic.encode()


class _Connection(asyncio.Protocol):
    """One connection. `subscribed` and `lost` are futures; the former fails where the peer is no publisher."""

    def __init__(self, inbox: Inbox) -> None:
        loop = asyncio.get_running_loop()
        self._inbox = inbox
        self._zmtp = ZmtpSubscriber(inbox.topic)
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self.subscribed: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = stream = cast(asyncio.Transport, transport)  # uvloop's are of no class of asyncio's
        _keep_alive(transport.get_extra_info("socket"))
        stream.write(self._zmtp.answers())

    def data_received(self, data: bytes) -> None:
        zmtp = self._zmtp
        zmtp.feed(data)
        try:
            messages = zmtp.messages(1 << 30, 1 << 30)
        except ValueError as error:
            self._give_up(str(error))
            return
        if answers := zmtp.answers():
            assert self._transport is not None
            self._transport.write(answers)
        if zmtp.subscribed and not self.subscribed.done():
            self.subscribed.set_result(None)
            self._inbox.changed(True)
        if messages and not self._inbox.came(messages):
            self._pause()

    def _pause(self) -> None:
        if not self._is_paused:
            assert self._transport is not None
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """More may come."""
        if self._is_paused and not self.lost.done():
            assert self._transport is not None
            self._is_paused = False
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.subscribed.done():
            self.subscribed.set_exception(ConnectionResetError("closed before it was subscribed to"))
            # Whoever waited for it may have been cancelled; then nobody is to be told of it.
            self.subscribed.exception()
        elif not self.subscribed.cancelled() and self.subscribed.exception() is None:
            self._inbox.changed(False)
        if not self.lost.done():
            self.lost.set_result(None)

    def _give_up(self, reason: str) -> None:
        self._inbox.refused(reason)
        if not self.subscribed.done():
            self.subscribed.set_exception(ConnectionAbortedError(reason))
            self.subscribed.exception()
        assert self._transport is not None
        self._transport.abort()


def _connector(endpoint: str) -> _Connect:
    """What connects to `tcp://HOST:PORT` or `ipc://PATH`. Raises ConfigError for anything else."""
    loop = asyncio.get_running_loop()
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port
        if host is not None:
            host.encode("idna")  # a name with an empty part is refused by no connection, but by the look-up
    except ValueError as error:
        raise ConfigError(f"KV-event endpoint {endpoint!r} cannot be connected to: {error}") from error
    if parts.scheme == "tcp" and host not in (None, "*") and port:
        return lambda factory: loop.create_connection(factory, host, port)
    path = endpoint.removeprefix("ipc://")
    if path != endpoint and path:
        address = f"\0{path[1:]}" if path.startswith("@") else path
        return lambda factory: loop.create_unix_connection(factory, address)
    raise ConfigError(f"KV-event endpoint {endpoint!r} cannot be connected to: write tcp://HOST:PORT")


def _keep_alive(connection: socket.socket | None) -> None:
    """Without it a host that vanishes is never noticed. Not ZeroMQ's heartbeats: not every publisher answers them."""
    if connection is None or connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
