"""Asking a publisher for batches it has sent before.

A DEALER sends `[b"", start]` to the publisher's ROUTER and gets each buffered batch from `start` on as a message of its
own, then an end marker. The marker is no proof of completeness: before vLLM 0.33 a reader slower than the default high
water mark of 1,000 messages silently loses the rest and the marker with it, and a batch that the engine could not
encode is missing for good. So the reader has no limit of its own, drains in a thread where nothing delays it, stops at
a deadline, and leaves it to the caller to check the numbers.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import zmq

from warmroute.errors import ConfigError, UndecodableFrame
from warmroute.kv_event.frames import NumberedPayload, read_frames

THREAD_NAME = "kv-event-replay"

# How soon a waiting thread sees that it is to stop.
_SLICE_MS = 50


@dataclass(slots=True)
class Replay:
    """The batches that came, in order of arrival, and whether the publisher said that these were all."""

    batches: list[NumberedPayload] = field(default_factory=list)
    ended: bool = False
    undecodable: int = 0

    @property
    def is_answered(self) -> bool:
        """Whether the publisher reacted at all."""
        return self.ended or bool(self.batches)


def open_replay(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> zmq.Socket[bytes]:
    """A socket connected to a replay endpoint. Raises ConfigError where the endpoint is no address."""
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.RCVHWM, 0)
    dealer.setsockopt(zmq.LINGER, 0)
    try:
        dealer.connect(endpoint)
    except zmq.ZMQError as error:
        dealer.close()
        raise ConfigError(f"replay endpoint {endpoint!r} cannot be connected to: {error}") from error
    return dealer


async def fetch_replay(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, start: int, last: int | None, deadline_s: float
) -> Replay:
    """Asks for the batches from number `start` on; returns at the end marker, at batch `last` or after `deadline_s`."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    deadline = loop.call_later(deadline_s, stop.set)
    # A thread of its own: in a shared pool, publishers that do not answer would use up the deadline of those that do.
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=THREAD_NAME)
    try:
        return await loop.run_in_executor(thread, _drain, context, endpoint, start, last, stop)
    finally:
        # Also when cancelled: the thread cannot be, but it ends within a slice.
        deadline.cancel()
        stop.set()
        thread.shutdown(wait=False)


def _drain(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, start: int, last: int | None, stop: threading.Event
) -> Replay:
    replay = Replay()
    with open_replay(context, endpoint) as dealer:
        dealer.send_multipart([b"", start.to_bytes(8)])
        while not stop.is_set():
            if dealer.poll(_SLICE_MS) and _take(replay, dealer.recv_multipart(), last):
                break
    return replay


def _take(replay: Replay, frames: list[bytes], last: int | None) -> bool:
    """Adds one reply; True when there is nothing more to wait for."""
    try:
        batch = read_frames(frames)
    except UndecodableFrame:
        replay.undecodable += 1
        return False
    if batch is None:
        replay.ended = True
        return True
    replay.batches.append(batch)
    return last is not None and batch.seq >= last
