"""A listener of its own on each worker's KV events, decoded by warmroute: what was really published."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import zmq
import zmq.asyncio

from kv_event.twin.decode import decode_batch
from warmroute.errors import UndecodableFrame

# Time for the connection: what is published before it stands is lost, and would be counted as such.
_CONNECT_S = 0.5


@dataclass(slots=True)
class EventCounts:
    """Counts over one worker's event stream. `lost` counts sequence numbers that never came."""

    batches: int = 0
    events: Counter[str] = field(default_factory=Counter)
    blocks: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    undecodable: int = 0
    lost: int = 0
    _next: int = 0

    def frame(self, sequence: int, payload: bytes) -> None:
        """Count one published batch."""
        self.lost += max(0, sequence - self._next)
        self._next = sequence + 1
        self.batches += 1
        try:
            batch = decode_batch(payload)
        except UndecodableFrame:
            self.undecodable += 1
            return
        self.rejected += len(batch.rejected)
        for event in batch.events:
            kind = type(event).__name__
            self.events[kind] += 1
            self.blocks[kind] += len(getattr(event, "block_hashes", ()))

    def summary(self) -> dict[str, Any]:
        """For the report: plain numbers by name."""
        names = ("batches", "rejected", "undecodable", "lost")
        numbers = {name: getattr(self, name) for name in names}
        return numbers | {"events": dict(self.events), "blocks": {k: n for k, n in self.blocks.items() if n}}


class EventTap:
    """Listens to event streams from their start, for as long as its context is open. `counts` is by endpoint."""

    def __init__(self) -> None:
        self.counts: dict[str, EventCounts] = {}
        self._context = zmq.asyncio.Context()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "EventTap":
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._context.destroy(linger=0)
        for result in results:  # a listener that ended by itself has counted too little
            if isinstance(result, Exception):
                raise result

    async def listen(self, endpoint: str) -> None:
        """Count what is published at `endpoint`, by an engine that has published nothing yet."""
        self.counts[endpoint] = EventCounts()
        self._tasks.append(asyncio.create_task(self._listen(endpoint, self.counts[endpoint])))
        await asyncio.sleep(_CONNECT_S)

    async def _listen(self, endpoint: str, counts: EventCounts) -> None:
        socket = self._context.socket(zmq.SUB)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.subscribe(b"")
        socket.connect(endpoint)
        while True:
            frames = await socket.recv_multipart()
            counts.frame(int.from_bytes(frames[-2], "big"), frames[-1])


async def event_endpoint(session: aiohttp.ClientSession, url: str) -> str:
    """Where the vLLM server at `url` publishes the KV events of its first engine."""
    async with session.get(f"{url}/kv_event_sources") as response:
        response.raise_for_status()
        sources: dict[str, dict[str, Any]] = await response.json()
    return str(sources["0"]["endpoint"])
