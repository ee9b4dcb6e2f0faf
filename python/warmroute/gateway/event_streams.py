"""One worker's KV-event streams: each publisher is followed on a lane of its own."""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp

from warmroute.diagnostics.event_log import EventLog
from warmroute.gateway.state_file import LaneState
from warmroute.kv_event import REPLAY_DEADLINE_S, EventSource, Listeners, Listening, open_listener
from warmroute.router import Router
from warmroute.worker import Lane, Worker

_log = logging.getLogger(__name__)

# Looks in a row that find a publisher connected, requests on its lane and never an event, until it is taken as silent.
# They are ten probes apart, and an engine publishes within its next step.
_SILENT_LOOKS = 3


@dataclass(slots=True)
class EventStream:
    """One publisher and the lane whose blocks it tells of. Times are monotonic, in seconds."""

    source: EventSource
    lane: Lane
    listening: Listening
    since: float
    silent_looks: int = 0
    warned: bool = False

    def is_new(self, now: float) -> bool:
        """Whether it may still be on its way to its first contact; a publisher gets a while, not forever."""
        return now - self.since <= REPLAY_DEADLINE_S

    def is_silent(self) -> bool:
        """Whether it is connected and tells nothing, though there is something to tell."""
        return self.silent_looks >= _SILENT_LOOKS

    def is_heard(self, now: float) -> bool:
        """Whether what happens in the cache is told here. One that has told something and is lost may come back."""
        state = self.listening.state()
        if state.connected or state.batches:
            return not self.is_silent()
        return self.is_new(now)


@dataclass(slots=True)
class EventStreams:
    """The streams of one worker, by rank. `saved` gives, and gives away, what was known of a lane before; `session`
    makes the connections over which one that is polled is asked.
    """

    worker: Worker
    router: Router
    listeners: Listeners
    saved: Callable[[EventSource], LaneState | None]
    session: Callable[[], aiohttp.ClientSession] = aiohttp.ClientSession
    _streams: dict[int | None, EventStream] = field(default_factory=dict)
    _warned: bool = False

    def __iter__(self) -> Iterator[EventStream]:
        return iter(self._streams.values())

    def of(self, lane: Lane) -> EventStream | None:
        """The stream that tells of a lane, or None."""
        stream = self._streams.get(lane.rank)
        return stream if stream is not None and stream.lane is lane else None

    def follow(self, sources: Sequence[EventSource], now: float) -> None:
        """Listen to what the worker is said to publish on, and to nothing else."""
        if not sources and any(stream.listening.state().connected for stream in self):
            sources = [stream.source for stream in self]  # one that is connected is there, whatever an answer left out
        lanes = self.router.set_ranks(self.worker, [source.rank for source in sources] or [None])
        lane_of = {lane.rank: lane for lane in lanes}
        wanted = {source.rank: source for source in sources}
        for rank, stream in list(self._streams.items()):
            if rank not in wanted or lane_of[rank] is not stream.lane:
                self._end(stream)
        for rank, source in wanted.items():
            known = self._streams.get(rank)
            if known is None or known.source != source or known.listening.ended:
                self._begin(source, lane_of[rank], now)
        self._look(now)

    def begin_with(self, stream: EventStream, saved: LaneState, now: float) -> None:
        """Drop what a stream has brought so far and go on from what was saved of it."""
        self._begin(stream.source, stream.lane, now, saved)

    def end(self) -> list[Listening]:
        """Stop listening; what is returned is still to be waited for."""
        streams = list(self)
        for stream in streams:
            self._end(stream)
        return [stream.listening for stream in streams]

    def _begin(self, source: EventSource, lane: Lane, now: float, saved: LaneState | None = None) -> None:
        before = self._streams.get(lane.rank)
        if before is not None:
            # Another address is another engine process, which began empty and will not say so; and what a new listener
            # replays must not be counted twice.
            self._tell_failure(before)
            before.listening.stop()
            self.router.index.clear(lane.key)
        saved = saved or self.saved(source)
        start, blocks = (None, None) if saved is None or saved.position is None else (saved.position, saved.blob)
        log = EventLog(self._name(lane))
        name = self._name(lane)
        label = f"worker {name} at {source.endpoint}" if self.worker.shows_address else f"worker {name}"
        told = dataclasses.replace(source, label=label, session=self.session)
        listener = open_listener(lane.key, told, self.router.index, log, start, blocks)
        self._streams[lane.rank] = EventStream(source, lane, self.listeners.listen(lane.key, listener), now)
        _log.info("listening for KV events of %s", told.shown)

    def _end(self, stream: EventStream) -> None:
        del self._streams[stream.lane.rank]
        stream.listening.stop()
        self.listeners.forget(stream.lane.key)
        # Where the lane stays, nobody confirms its blocks any more.
        self.router.index.clear(stream.lane.key)

    def _look(self, now: float) -> None:
        for stream in self:
            state = stream.listening.state()
            told = state.batches or state.last_seq is not None
            silent = state.connected and not told and self.router.index.blocks(stream.lane.key) > 0
            stream.silent_looks = stream.silent_looks + 1 if silent else 0
            self.router.expect_events(stream.lane, stream.is_heard(now))
            if not stream.warned and not stream.is_heard(now):
                stream.warned = True
                self._warn(stream)
        if not self._streams:
            for lane in self.worker.lanes:
                self.router.expect_events(lane, False)
            self._warn_of_no_events()

    def _warn(self, stream: EventStream) -> None:
        if stream.is_silent():
            _log.warning(
                "worker %s: its publisher is connected and tells of no block, though the worker has had requests; "
                "until it does, its prefixes are guessed. Is the engine's prefix caching on, and the topic right?",
                self._name(stream.lane),
            )
        else:
            _log.warning(
                "worker %s: nobody answers where its KV events are published, so its prefixes are guessed from what it "
                "is sent; check its kv_events endpoint",
                self._name(stream.lane),
            )

    def _warn_of_no_events(self) -> None:
        if self._warned:
            return
        self._warned = True
        _log.warning(
            "worker %s publishes no KV events: its prefixes are guessed from what it is sent; start the engine with "
            "them, or name their endpoint with kv_events",
            self.worker.shown,
        )

    def _name(self, lane: Lane) -> str:
        return self.worker.shown if lane.rank is None else f"{self.worker.shown} rank {lane.rank}"

    def _tell_failure(self, stream: EventStream) -> None:
        failure = stream.listening.failure()
        if failure is not None:
            _log.error("listening to worker %s had failed; beginning anew", self._name(stream.lane), exc_info=failure)
