"""KV events over ZMQ as vLLM's `ZmqEventPublisher` sends them: live on a PUB socket, once more on a ROUTER socket.

live      [topic, sequence number (8 bytes, big-endian), batch]
replay    the client sends [empty, first sequence number]; it gets [empty, topic, sequence number, batch] for each
          batch kept from there on, and at the end [empty, empty, 8 bytes of ff, empty]      (vLLM 0.26 and later)
"""

from collections import deque
from collections.abc import Callable, Sequence
from socket import AF_INET6, SOCK_STREAM, gaierror, getaddrinfo
from types import TracebackType
from typing import Any, Self

import zmq
import zmq.asyncio

from warmroute.emulator.kv_wire import KvWire
from warmroute.engine_model import KvChange
from warmroute.errors import AddressInUse, ConfigError

_SEQUENCE_BYTES = 8
_END = b"\xff" * _SEQUENCE_BYTES
_HWM = 100_000


class KvPublisher:
    """Publishes batches of one rank's changes and answers replay requests; a context manager that closes its sockets.

    `wall_clock` gives seconds since 1970, for the batches' timestamps.
    """

    def __init__(
        self,
        wire: KvWire,
        *,
        host: str,
        port: int,
        replay_port: int,
        topic: str,
        buffer_steps: int,
        wall_clock: Callable[[], float],
    ) -> None:
        self.topic = topic
        self.buffer_steps = buffer_steps
        self._wire = wire
        self._wall_clock = wall_clock
        self._next = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=buffer_steps)
        self._context = zmq.asyncio.Context()
        # Publishing never waits (a PUB socket drops what a slow reader does not take), so it needs no asyncio.
        self._pub: zmq.Socket[bytes] = zmq.Context.shadow(self._context.underlying).socket(zmq.PUB)
        self._replay = self._context.socket(zmq.ROUTER)
        self._pub.set_hwm(_HWM)
        # One reader may be sent the whole buffer at once and the end marker (vLLM 0.33 does the same).
        self._replay.sndhwm = 2 * (buffer_steps + 1)
        try:
            self.endpoint = _bind(self._pub, host, port)
            self.replay_endpoint = _bind(self._replay, host, replay_port)
        except (AddressInUse, ConfigError):
            self.close()
            raise

    def publish(self, changes: Sequence[KvChange]) -> None:
        """Send `changes` as the next batch."""
        payload = self._wire.batch(self._wall_clock(), changes)
        self._kept.append((self._next, payload))
        self._pub.send_multipart((self.topic.encode(), _sequence(self._next), payload), flags=zmq.NOBLOCK)
        self._next += 1

    def restart(self) -> None:
        """Go on as the publisher of a new process: batches are counted from 0, none is kept of those before."""
        self._next = 0
        self._kept.clear()

    async def serve_replay(self) -> None:
        """Answer replay requests until cancelled; frames that are no request are ignored."""
        while True:
            frames = await self._replay.recv_multipart()
            if len(frames) == 3 and frames[1] == b"" and len(frames[2]) == _SEQUENCE_BYTES:
                await self._send_kept(frames[0], int.from_bytes(frames[2], "big"))

    def source(self) -> dict[str, Any]:
        """Where the events come from, as vLLM's KVEventsConfig."""
        return {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": self.endpoint,
            "replay_endpoint": self.replay_endpoint,
            "buffer_steps": self.buffer_steps,
            "hwm": _HWM,
            "max_queue_size": _HWM,
            "topic": self.topic,
        }

    def close(self) -> None:
        """Close the sockets; what was not sent by now is lost."""
        self._pub.close(linger=0)
        self._replay.close(linger=0)
        self._context.term()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def _send_kept(self, reader: bytes, start: int) -> None:
        topic = self.topic.encode()
        for sequence, payload in list(self._kept):
            if sequence >= start:
                await self._replay.send_multipart((reader, b"", topic, _sequence(sequence), payload))
        await self._replay.send_multipart((reader, b"", b"", _END, b""))


def _sequence(number: int) -> bytes:
    return number.to_bytes(_SEQUENCE_BYTES, "big")


def _bind(socket: "zmq.Socket[Any]", host: str, port: int) -> str:
    """Bind to `host`; the endpoint with the port that was taken. Raises AddressInUse, ConfigError."""
    try:
        # ZMQ takes addresses only: of a name the first one, as it is a name of this machine.
        family, *_, address = getaddrinfo(host, port, type=SOCK_STREAM)[0]
        socket.ipv6 = family == AF_INET6
        bracketed = f"[{address[0]}]" if family == AF_INET6 else address[0]
        socket.bind(f"tcp://{bracketed}:{port or '*'}")
    except gaierror as error:
        raise ConfigError(f"cannot listen on {host}: {error.strerror}") from error
    except zmq.ZMQError as error:
        if error.errno == zmq.EADDRINUSE:
            raise AddressInUse(f"port {port} on {host} is taken; choose another one for the KV events") from error
        raise ConfigError(f"cannot publish KV events on {host}:{port}: {error}") from error
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)
