"""Keeps the index in step with an engine that must be asked for its KV events: TensorRT-LLM's `POST /kv_cache_events`.

The question drains the engine's buffer (`event_buffer_max_size` events), so there must be one asker only, and often
enough. What another one takes is lost, and shows as missing event ids.
"""

import asyncio
import logging
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp

from warmroute.errors import ConfigError, UndecodableFrame
from warmroute.kv_event.apply import apply_batch
from warmroute.kv_event.listener import EventSource, Position
from warmroute.kv_event.messages import EventBatch
from warmroute.kv_event.subscription_state import SubscriptionObserver, SubscriptionState, Unobserved
from warmroute.kv_event.tensorrt_llm import PolledEventReader, PolledEvents, split
from warmroute.prefix_index import PrefixIndex

_log = logging.getLogger(__name__)

_PATH = "/kv_cache_events"
# Between two questions: while there are events, and at most while there are none.
_BUSY_S = 0.005
_IDLE_S = 0.1
# At most between two attempts to reach an engine that does not answer.
_ABSENT_S = 1.0
# `trtllm-serve` waits for events for 2 s before it answers that there are none.
_TIMEOUT = aiohttp.ClientTimeout(total=15.0)
# What an engine has buffered is megabytes.
_LARGEST_ANSWER = 256 << 20
# Events taken in at one go.
_SLICE = 32


class PollingListener:
    """Follows one endpoint, all its ranks in one lane; a `Listener`.

    `start`: the index holds the lane's blocks as of this position, or will once `saved` (`PrefixIndex.dump`) has been
    restored, which `run` does first. An engine that goes on with any other event begins with an empty lane.
    """

    def __init__(
        self,
        lane: int,
        source: EventSource,
        index: PrefixIndex,
        observer: SubscriptionObserver | None = None,
        *,
        start: Position | None = None,
        saved: bytes | None = None,
    ) -> None:
        self._lane = lane
        self._endpoint = source.endpoint
        self._shown = source.shown
        self._session = source.session
        self._index = index
        self._observer = Unobserved() if observer is None else observer
        self._reader = PolledEventReader(start)
        self._begins_empty = start is None
        self._saved = saved
        self._state = SubscriptionState()
        self._delay_s = _BUSY_S
        self._refused: int | None = None

    def state(self) -> SubscriptionState:
        """A snapshot of the counters; a batch is an answer with events in it. From any thread."""
        position = self._reader.position
        return replace(
            self._state,
            last_seq=None if position is None else position.seq,
            complete=self._state.connected and self._reader.is_complete,
        )

    def position(self) -> Position | None:
        """The latest event in the index; None before the first, and where ranks count each. From any thread."""
        return self._reader.position

    async def snapshot(self) -> tuple[Position | None, bytes]:
        """The position and the lane's blocks at it. On the listening thread."""
        return self._reader.position, self._index.dump(self._lane)

    async def resync(self) -> None:
        """Forgets the lane's blocks. Nobody can tell them again: the view is incomplete until the engine restarts.

        On the listening thread.
        """
        self._state.resyncs += 1
        self._index.clear(self._lane)
        self._reader.begin_anew()

    async def run(self) -> None:
        """Asks until cancelled. Once, on the listening thread. Raises ConfigError where the endpoint is no address."""
        url = polled_url(self._endpoint)
        self._begin()
        async with self._session() as session:
            while True:
                payload = await self._ask(session, url)
                if payload is not None:
                    await self._take(payload)
                await asyncio.sleep(self._delay_s)

    def _begin(self) -> None:
        """Puts the saved blocks in their place, or begins with none."""
        saved, self._saved = self._saved, None
        if self._begins_empty:
            self._index.clear(self._lane)
        if saved is None:
            return
        try:
            self._index.restore(self._lane, saved)
        except ValueError as error:
            self._index.clear(self._lane)
            self._reader = PolledEventReader()
            self._observer.saved_view_dropped(self._lane, str(error))

    async def _ask(self, session: aiohttp.ClientSession, url: str) -> bytes | None:
        """The answer, or None where there was none; waits longer before the next question each time."""
        try:
            async with session.post(url, allow_redirects=False, timeout=_TIMEOUT) as response:
                body = await _bounded(response)
        except (aiohttp.ClientError, TimeoutError):
            self._back_off(_ABSENT_S)
            self._set_connected(False)
            return None
        if response.status != 200 or body is None:
            self._back_off(_ABSENT_S)
            self._set_connected(False)
            self._tell_refusal(response.status)
            return None
        self._refused = None
        self._set_connected(True)
        return body

    async def _take(self, payload: bytes) -> None:
        try:
            events = split(payload)
        except UndecodableFrame as error:
            # The engine has forgotten what it said.
            self._reader.note_loss()
            self._state.undecodable += 1
            self._back_off(_IDLE_S)
            self._observer.frame_undecodable(self._lane, str(error))
            return
        if not events:
            self._back_off(_IDLE_S)
            return
        self._delay_s = _BUSY_S
        self._state.batches += 1
        for at in range(0, len(events), _SLICE):
            self._apply(self._reader.read(events[at : at + _SLICE]))
            # A busy engine's answer is megabytes: other lanes of the thread, and other threads, get their turn.
            await asyncio.sleep(0)

    def _apply(self, polled: PolledEvents) -> None:
        if polled.dropped is not None:
            self._observer.saved_view_dropped(self._lane, polled.dropped)
        for _ in range(polled.restarts):
            self._observer.engine_restarted(self._lane)
        for gap in polled.gaps:
            self._observer.gap_found(self._lane, gap, False)
        batch = EventBatch(timestamp=0.0, rank=None, events=polled.events, rejected=polled.rejected)
        report = apply_batch(self._index, self._lane, batch)
        self._state.restarts += polled.restarts
        self._state.gaps += len(polled.gaps)
        self._state.unfilled_gaps += len(polled.gaps)
        self._state.rejected += report.rejected
        self._state.unindexed += report.unindexed + polled.unindexed
        self._state.last_event_at = asyncio.get_running_loop().time()
        position = self._reader.position
        self._observer.batches_applied(self._lane, () if position is None else (position.seq,), report)

    def _back_off(self, most_s: float) -> None:
        self._delay_s = min(2 * self._delay_s, most_s)

    def _set_connected(self, connected: bool) -> None:
        if connected == self._state.connected:
            return
        self._state.connected = connected
        # After an absence the engine is as eager as any; after an answer the pauses are those between answers.
        self._delay_s = _BUSY_S
        self._observer.connection_changed(self._lane, connected)

    def _tell_refusal(self, status: int) -> None:
        """Says once that there are no events to be had, and what to do about it."""
        if status == self._refused:
            return
        self._refused = status
        _log.warning(
            "%s answers %d: no KV events can be had there, so what is cached is not known. Is it the address of a "
            "trtllm-serve, with event_buffer_max_size above 0 and enable_block_reuse in its kv_cache_config?",
            self._shown,
            status,
        )


async def _bounded(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None for one that is larger than any buffer of events."""
    try:
        await response.content.readexactly(_LARGEST_ANSWER + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial
    return None


def polled_url(endpoint: str) -> str:
    """The URL to ask, from `http://HOST:PORT` with or without a path. Raises ConfigError where it is none."""
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"KV-event endpoint {endpoint!r} cannot be asked: write http://HOST:PORT")
    return endpoint if parts.path.strip("/") else endpoint.rstrip("/") + _PATH
