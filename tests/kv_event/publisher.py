"""A KV-event publisher as engines have it: PUB for live batches, ROUTER for replays, batches numbered from 0.

It can be told to misbehave: lose a live batch, spend a number on a batch that cannot be encoded, answer replays late,
partly or not at all, or send bytes that are no batch.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import zmq
import zmq.asyncio

from kv_event.wire_format import encode

END = b"\xff" * 8


@dataclass
class Publisher:
    topic: bytes = b"kv@pod@model"
    # vLLM 0.26 and SGLang 0.5.22 put the topic into replies as well.
    replies_with_topic: bool = True
    live_with_topic: bool = True
    buffer_steps: int = 10_000
    answers_replays: bool = True
    # Replies after which a replay breaks off without an end marker, as through a full send buffer.
    replies_at_most: int | None = None
    next_seq: int = 0
    buffer: list[tuple[int, bytes]] = field(default_factory=list)
    replays: list[int] = field(default_factory=list)
    endpoint: str = ""
    replay_endpoint: str = ""

    @asynccontextmanager
    async def serve(
        self, endpoint: str = "tcp://127.0.0.1:0", replay: str = "tcp://127.0.0.1:0"
    ) -> AsyncIterator[None]:
        context = zmq.asyncio.Context.instance()
        with context.socket(zmq.PUB) as pub, context.socket(zmq.ROUTER) as router:
            for socket, address in ((pub, endpoint), (router, replay)):
                socket.setsockopt(zmq.LINGER, 0)
                socket.setsockopt(zmq.SNDHWM, 0)
                await bind(socket, address)
            self._pub = pub
            self.endpoint = pub.get_string(zmq.LAST_ENDPOINT)
            self.replay_endpoint = router.get_string(zmq.LAST_ENDPOINT)
            replies = asyncio.create_task(self._serve_replays(router))
            try:
                yield
            finally:
                replies.cancel()
                with suppress(asyncio.CancelledError):
                    await replies

    async def publish(self, *events: Any, lose: bool = False, payload: bytes | None = None) -> int:
        """Sends a batch (or `payload` in its place); its number. With `lose` it can only be had by a replay."""
        seq = self.next_seq
        self.next_seq += 1
        payload = encode(list(events), 1700000000.0 + seq, 0) if payload is None else payload
        self.buffer = [*self.buffer, (seq, payload)][-self.buffer_steps :]
        if not lose:
            front = [self.topic] if self.live_with_topic else []
            await self._pub.send_multipart([*front, seq.to_bytes(8), payload])
        return seq

    async def send_raw(self, *frames: bytes) -> None:
        await self._pub.send_multipart(list(frames))

    def spend_number(self) -> None:
        """What an event that cannot be encoded does."""
        self.next_seq += 1

    async def _serve_replays(self, router: zmq.asyncio.Socket) -> None:
        while True:
            client, empty, start = await router.recv_multipart()
            assert empty == b""
            self.replays.append(int.from_bytes(start))
            if self.answers_replays:
                await self._answer(router, client, int.from_bytes(start))

    async def _answer(self, router: zmq.asyncio.Socket, client: bytes, start: int) -> None:
        batches = [batch for batch in self.buffer if batch[0] >= start]
        front: Sequence[bytes] = [client, b"", self.topic] if self.replies_with_topic else [client, b""]
        for seq, payload in batches[: self.replies_at_most]:
            await router.send_multipart([*front, seq.to_bytes(8), payload])
        if self.replies_at_most is None or len(batches) <= self.replies_at_most:
            end = [client, b"", b""] if self.replies_with_topic else [client, b""]
            await router.send_multipart([*end, END, b""])


async def bind(socket: zmq.asyncio.Socket, address: str) -> None:
    """Binds, also where a socket that was just closed still holds the port for a moment."""
    for _ in range(200):
        try:
            socket.bind(address)
            return
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE:
                raise
        await asyncio.sleep(0.01)
    raise TimeoutError(address)
