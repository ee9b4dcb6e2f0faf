"""The SUB socket of a subscription and its monitor, read on an asyncio loop by the slice.

Not `zmq.asyncio`: it makes a future, and walks through the socket's state, for each single message.
"""

import asyncio
import contextlib
import struct
import time

import zmq

from warmroute.errors import ConfigError
from warmroute.kv_event.frames import SLICE_BYTES, SLICE_MESSAGES
from warmroute.kv_event.listener import EventSource

# After a full slice the thread gives the interpreter out of its hands. ZeroMQ releases it at every frame, for less time
# than another thread takes to wake up, so that the router's loop, woken each time in vain, was kept waiting for many
# milliseconds by a flood (bench/kv_ingest.py has its stalls). The pause costs a flood some per cent.
_PAUSE_S = 50e-6

_MONITORED = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED


class Inbox:
    """Everything that comes from one publisher. Made, used and closed on one thread.

    Raises ConfigError where the endpoint is no address.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", source: EventSource) -> None:
        self._sub = context.socket(zmq.SUB)
        self._monitor = self._sub.get_monitor_socket(_MONITORED)
        self._sub.setsockopt(zmq.RCVHWM, 0)
        # Without it a host that vanishes is never noticed. Not ZeroMQ's heartbeats: not every publisher answers them.
        self._sub.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self._sub.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
        self._sub.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 10)
        self._sub.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
        self._sub.setsockopt(zmq.SUBSCRIBE, source.topic.encode())
        try:
            self._sub.connect(source.endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"KV-event endpoint {source.endpoint!r} cannot be connected to: {error}") from error

        self._descriptors = (int(self._sub.getsockopt(zmq.FD)), int(self._monitor.getsockopt(zmq.FD)))

    def close(self) -> None:
        """Disconnects; what has not been read is lost."""
        self._sub.disable_monitor()
        self._monitor.close(linger=0)
        self._sub.close(linger=0)

    async def wait(self) -> None:
        """Returns when there may be something to read; at once where there is."""
        # ZeroMQ's descriptor tells of news only: while something is left from before, it stays silent.
        if _has_news(self._sub) or _has_news(self._monitor):
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        for descriptor in self._descriptors:
            loop.add_reader(descriptor, _wake, woken)
        try:
            await woken
        finally:
            for descriptor in self._descriptors:
                loop.remove_reader(descriptor)

    def messages(self) -> list[list[bytes]]:
        """The live messages that are here, at most a slice of them; after a whole slice with a pause for others."""
        messages: list[list[bytes]] = []
        size = 0
        with contextlib.suppress(zmq.Again):
            while len(messages) < SLICE_MESSAGES and size < SLICE_BYTES:
                frames = self._sub.recv_multipart(zmq.NOBLOCK)
                messages.append(frames)
                size += len(frames[-1])
            time.sleep(_PAUSE_S)
        return messages

    def connections(self) -> list[bool]:
        """What has become of the connection since the last call: each time it was made (True) or lost."""
        changes = []
        with contextlib.suppress(zmq.Again):
            while True:
                (event,) = struct.unpack_from("=H", self._monitor.recv_multipart(zmq.NOBLOCK)[0])
                changes.append(event == zmq.Event.HANDSHAKE_SUCCEEDED)
        return changes


def _has_news(socket: "zmq.Socket[bytes]") -> bool:
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
