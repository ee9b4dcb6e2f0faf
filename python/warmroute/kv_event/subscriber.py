"""Keeps the index in step with one engine's KV events, over ZeroMQ.

    SUB socket   -> _receive -> _accept     each live batch, judged by its sequence number, gaps filled by a replay
    monitor      -> _watch   -> _catch_up   at each (re)connection: a replay of what was published without us

Both take turns under one lock. While one of them waits for a replay, live batches wait in the SUB socket, which has no
limit, so that batches are applied in the order of their numbers. A replay may bring what the live stream brings again;
the tracker knows these by number and payload.

The monitor socket is there because the sequence alone cannot show every restart: when the new process has published as
many batches as the old one before ZeroMQ reconnects, its numbers simply go on. After a reconnection the publisher is
therefore asked for the last batch that was seen; if it has another one under that number it is another process.
"""

import asyncio
import struct
from dataclasses import dataclass, replace

import zmq
import zmq.asyncio

from warmroute.errors import ConfigError, UndecodableFrame
from warmroute.kv_event.apply import BlockIndex, CacheGroups, apply_batch
from warmroute.kv_event.decode import decode_batch
from warmroute.kv_event.frames import NumberedPayload, read_frames
from warmroute.kv_event.replay import Replay, fetch_replay, open_replay
from warmroute.kv_event.sequence import Duplicate, Gap, Restart, SequenceTracker
from warmroute.kv_event.subscription_state import SubscriptionObserver, SubscriptionState, Unobserved

REPLAY_DEADLINE_S = 5.0
"""How long a publisher may take to send a replay. vLLM polls for requests every 0.1 s when idle."""

_MONITORED = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where one engine process (one data-parallel rank) publishes, as addresses to connect to: `tcp://host:port`.

    Without `replay_endpoint` a late join or a gap leaves the view incomplete. `topic` is a prefix; "" takes all.
    """

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""


class Subscription:
    """The subscription of one worker to its engine's events. `run` it once, in a task; cancel the task to end it."""

    def __init__(
        self,
        worker: int,
        source: EventSource,
        index: BlockIndex,
        observer: SubscriptionObserver | None = None,
        *,
        replay_deadline_s: float = REPLAY_DEADLINE_S,
        context: zmq.asyncio.Context | None = None,
    ) -> None:
        self._worker = worker
        self._source = source
        self._index = index
        self._observer = Unobserved() if observer is None else observer
        self._replay_deadline_s = replay_deadline_s
        self._context = zmq.asyncio.Context.instance() if context is None else context
        self._tracker = SequenceTracker()
        self._groups = CacheGroups()
        self._state = SubscriptionState()
        self._turn = asyncio.Lock()
        self._has_hole = False
        self._is_current = False
        self._replay_is_mute = False

    def state(self) -> SubscriptionState:
        """A snapshot of the counters."""
        complete = self._is_current and not self._has_hole
        return replace(self._state, last_seq=self._tracker.last, complete=complete)

    async def run(self) -> None:
        """Follows the publisher until cancelled, through its restarts and absences.

        Raises ConfigError where an endpoint is no address.
        """
        if self._source.replay_endpoint is not None:
            open_replay(zmq.Context(self._context), self._source.replay_endpoint).close()
        with self._context.socket(zmq.SUB) as sub:
            monitor = sub.get_monitor_socket(_MONITORED)
            try:
                self._connect(sub)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._watch(monitor))
                    tasks.create_task(self._receive(sub))
            finally:
                sub.disable_monitor()
                monitor.close(linger=0)

    def _connect(self, sub: zmq.asyncio.Socket) -> None:
        sub.setsockopt(zmq.RCVHWM, 0)
        sub.setsockopt(zmq.LINGER, 0)
        # Without it a host that vanishes is never noticed. Not ZeroMQ's heartbeats: not every publisher answers them.
        sub.setsockopt(zmq.TCP_KEEPALIVE, 1)
        sub.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
        sub.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 10)
        sub.setsockopt(zmq.TCP_KEEPALIVE_CNT, 3)
        sub.setsockopt(zmq.SUBSCRIBE, self._source.topic.encode())
        try:
            sub.connect(self._source.endpoint)
        except zmq.ZMQError as error:
            raise ConfigError(f"KV-event endpoint {self._source.endpoint!r} cannot be connected to: {error}") from error

    async def _watch(self, monitor: zmq.asyncio.Socket) -> None:
        while True:
            message = await monitor.recv_multipart()
            (event,) = struct.unpack_from("=H", message[0])
            connected = event == zmq.Event.HANDSHAKE_SUCCEEDED
            self._state.connected = connected
            self._observer.connection_changed(self._worker, connected)
            async with self._turn:
                self._is_current = False
                if connected:
                    self._replay_is_mute = False
                    await self._catch_up()

    async def _receive(self, sub: zmq.asyncio.Socket) -> None:
        while True:
            frames = await sub.recv_multipart()
            async with self._turn:
                await self._accept(frames)
            # A socket with messages waiting answers without suspending; the loop must get its turn between batches.
            await asyncio.sleep(0)

    async def _accept(self, frames: list[bytes]) -> None:
        """Takes in one live message."""
        try:
            batch = read_frames(frames)
        except UndecodableFrame as error:
            self._note_undecodable(str(error))
            return
        if batch is None:
            return
        verdict = self._tracker.observe(batch.seq, batch.mark)
        if isinstance(verdict, Duplicate):
            self._state.duplicates += 1
            return
        if isinstance(verdict, Restart):
            self._begin_anew()
        missed = verdict.missed if isinstance(verdict, Restart) else verdict
        if isinstance(missed, Gap):
            await self._close_gap(missed)
        self._is_current = True
        self._apply(batch)

    def _begin_anew(self) -> None:
        """Another engine process: its cache began empty, whatever was known."""
        self._index.clear(self._worker)
        self._has_hole = False
        self._state.restarts += 1
        self._observer.engine_restarted(self._worker)

    async def _close_gap(self, gap: Gap) -> None:
        self._state.gaps += 1
        filled = await self._fill(gap)
        if not filled:
            self._state.unfilled_gaps += 1
            self._has_hole = True
        self._observer.gap_found(self._worker, gap, filled)

    async def _fill(self, gap: Gap) -> bool:
        """Applies what a replay has of the gap; whether that was all of it."""
        replay = await self._ask_replay(gap.first, gap.last)
        expected, holes = gap.first, 0
        for batch in replay.batches:
            if expected <= batch.seq <= gap.last:
                holes += batch.seq - expected
                expected = batch.seq + 1
                self._apply(batch)
                await asyncio.sleep(0)
        return holes == 0 and expected == gap.last + 1

    async def _catch_up(self) -> None:
        """After a (re)connection: finds out whether the process is the same, applies what it has published since."""
        if self._source.replay_endpoint is None:
            return
        last, mark = self._tracker.last, self._tracker.mark
        replay = await self._ask_replay(last or 0)
        if last is not None and replay.is_answered and not _begins_with(replay, last, mark):
            self._tracker.reset()
            self._begin_anew()
            replay = await self._ask_replay(0)
        for batch in replay.batches:
            self._splice(batch)
            await asyncio.sleep(0)
        self._is_current = replay.ended

    def _splice(self, batch: NumberedPayload) -> None:
        """Takes in one batch of the publisher's history; what is missing there cannot be had elsewhere."""
        verdict = self._tracker.observe_replayed(batch.seq, batch.mark)
        if isinstance(verdict, Duplicate):
            return
        if isinstance(verdict, Gap):
            self._state.gaps += 1
            self._state.unfilled_gaps += 1
            self._has_hole = True
            self._observer.gap_found(self._worker, verdict, False)
        self._apply(batch)

    async def _ask_replay(self, start: int, last: int | None = None) -> Replay:
        """A replay, empty where there is nobody to ask.

        A publisher that let one request run into the deadline is not asked again on this connection: with every gap
        costing a deadline, the live stream would fall behind for good.
        """
        endpoint = self._source.replay_endpoint
        if endpoint is None or self._replay_is_mute:
            return Replay()
        self._state.replays += 1
        replay = await fetch_replay(zmq.Context(self._context), endpoint, start, last, self._replay_deadline_s)
        self._replay_is_mute = not replay.is_answered
        self._state.undecodable += replay.undecodable
        return replay

    def _apply(self, batch: NumberedPayload) -> None:
        try:
            events = decode_batch(batch.payload)
        except UndecodableFrame as error:
            self._has_hole = True
            self._note_undecodable(str(error))
            return
        report = apply_batch(self._index, self._worker, events, self._groups)
        if report.cleared:
            self._has_hole = False
        self._state.batches += 1
        self._state.rejected += report.rejected
        self._state.unindexed += report.unindexed
        self._state.last_event_at = asyncio.get_running_loop().time()
        self._observer.batch_applied(self._worker, batch.seq, report)

    def _note_undecodable(self, reason: str) -> None:
        self._state.undecodable += 1
        self._observer.frame_undecodable(self._worker, reason)


def _begins_with(replay: Replay, seq: int, mark: int | None) -> bool:
    return bool(replay.batches) and (replay.batches[0].seq, replay.batches[0].mark) == (seq, mark)
