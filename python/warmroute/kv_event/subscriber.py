"""Keeps the index in step with one engine's KV events, over ZeroMQ.

    inbox        -> _take_in -> _accept      live batches by the slice, judged by their numbers, gaps filled by a replay
                 -> _take_in -> _catch_up    at each (re)connection: a replay of what was published without us

Taking in, `snapshot` and `resync` take turns under one lock. While one of them waits for a replay, live batches wait in
the inbox, which has no limit, so that batches are applied in the order of their numbers. A replay may bring what the
live stream brings again; the tracker knows these by number and payload.

Connections count because the sequence alone cannot show every restart: when the new process has published as many
batches as the old one before we are connected to it, its numbers simply go on. After a reconnection the publisher is
therefore asked for the last batch that was seen; if it has another one under that number it is another process. A view
that an earlier process of the router has saved is verified in the same way.
"""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import zmq

from warmroute.errors import UndecodableFrame
from warmroute.kv_event.apply import ApplyReport, EventApplier
from warmroute.kv_event.frames import NumberedPayload, mark_of, read_frames, slices
from warmroute.kv_event.inbox import Inbox
from warmroute.kv_event.listener import EventSource, Position
from warmroute.kv_event.replay import Replay, fetch_replay, open_replay
from warmroute.kv_event.sequence import Duplicate, Gap, Restart, SequenceTracker
from warmroute.kv_event.subscription_state import SubscriptionObserver, SubscriptionState, Unobserved
from warmroute.prefix_index import PrefixIndex

REPLAY_DEADLINE_S = 5.0
"""How long a publisher may take to send a replay. vLLM polls for requests every 0.1 s when idle."""

GATHERING_S = 0.002
"""How long the next batches are waited for together. Each time that they are applied takes this thread 10 us, in which
it holds up the router's own; predictions stand in for what has not been applied yet."""


class Subscription:
    """The subscription of one lane to its engine's events; a `Listener`.

    `start`: the index holds the lane's blocks as of this position, or will once `saved` (`PrefixIndex.dump`) has been
    restored, which `run` does first. At first contact the position is verified: a publisher that has this very batch
    goes on from there, any other begins with an empty lane. Where no replay is to be had, the first live batch must
    be the one after it.
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
        replay_deadline_s: float = REPLAY_DEADLINE_S,
        context: "zmq.Context[zmq.Socket[bytes]] | None" = None,
    ) -> None:
        self._lane = lane
        self._source = source
        self._index = index
        self._observer = Unobserved() if observer is None else observer
        self._replay_deadline_s = replay_deadline_s
        self._context = zmq.Context.instance() if context is None else context
        self._applier = EventApplier(index, lane)
        self._tracker = SequenceTracker()
        self._state = SubscriptionState()
        self._turn = asyncio.Lock()
        self._start, self._saved = start, saved
        self._position = start
        # Before this number batches are missing, which only a clear makes good.
        self._hole_before: int | None = None
        self._is_verified = True
        self._is_current = False
        self._replay_is_mute = False

    def state(self) -> SubscriptionState:
        """A snapshot of the counters. From any thread."""
        complete = self._is_current and self._hole_before is None
        return replace(self._state, last_seq=self._tracker.last, complete=complete)

    def position(self) -> Position | None:
        """The last batch in the index; None before the first one. From any thread."""
        return self._position

    async def snapshot(self) -> tuple[Position | None, bytes]:
        """The position and the lane's blocks at it. On the listening thread; waits for a replay that is under way."""
        async with self._turn:
            if self._saved is not None:  # not in its place yet: a listener before this one is still stopping
                return self._start, self._saved
            return self._position, self._index.dump(self._lane)

    async def resync(self) -> None:
        """Clears the lane and learns it again from all that the publisher can repeat. On the listening thread."""
        async with self._turn:
            self._state.resyncs += 1
            # Asked for first, so that the lane is not empty while the answer is awaited.
            replay = await self._ask_replay(0)
            self._forget_all(missing=self._tracker.last is not None and not replay.is_answered)
            if replay.is_answered:
                self._tracker.reset()
                await self._take_history(replay.batches)
                self._is_current = replay.ended

    async def run(self) -> None:
        """Follows the publisher until cancelled, through its restarts and absences. Once, on the listening thread.

        Raises ConfigError where an endpoint is no address.
        """
        if self._source.replay_endpoint is not None:
            open_replay(self._context, self._source.replay_endpoint).close()
        inbox = Inbox(self._source)
        try:
            self._begin()
            while True:
                await inbox.wait()
                async with self._turn:
                    await self._take_in(inbox)
                # While messages wait nothing above suspends; other lanes of the thread must get their turn.
                await asyncio.sleep(0.0 if inbox.has_messages() else GATHERING_S)
        finally:
            await inbox.close()

    def _begin(self) -> None:
        """Puts the saved blocks in their place, or begins with none."""
        start, saved, self._saved = self._start, self._saved, None
        if start is None:
            self._index.clear(self._lane)
            return
        try:
            if saved is not None:
                self._index.restore(self._lane, saved)
        except ValueError as error:
            self._drop_saved(str(error))
            return
        self._tracker.go_on_from(start.seq, start.mark)
        self._hole_before = None if start.complete else start.seq + 1
        self._is_verified = False

    async def _take_in(self, inbox: Inbox) -> None:
        # A connection is known of before the first message comes through it: so with the messages in hand, every
        # connection that they came through is told of now.
        messages = inbox.messages()
        for connected in inbox.connections():
            self._state.connected = connected
            self._observer.connection_changed(self._lane, connected)
            self._is_current = False
            if connected:
                self._replay_is_mute = False
                await self._catch_up()
        await self._accept(messages)

    async def _accept(self, messages: Sequence[Sequence[bytes]]) -> None:
        """Takes in live messages: runs that are in order at one go, the others one by one."""
        at = 0
        while at < len(messages):
            payloads = in_order(messages, at, self._tracker.expected)
            if payloads:
                self._follow(payloads)
                at += len(payloads)
            else:
                await self._judge(messages[at])
                at += 1

    def _follow(self, payloads: list[bytes]) -> None:
        first = self._tracker.expected
        self._tracker.go_on_from(first + len(payloads) - 1, mark_of(payloads[-1]))
        self._is_verified = self._is_current = True
        self._apply(range(first, first + len(payloads)), payloads)
        self._stand_here()

    async def _judge(self, frames: Sequence[bytes]) -> None:
        """Takes in one live message of any kind."""
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
        self._is_verified = self._is_current = True
        self._apply((batch.seq,), [batch.payload])
        self._stand_here()

    def _begin_anew(self) -> None:
        """Another engine process: its cache began empty, whatever was known."""
        self._applier.reset()
        if not self._is_verified:
            self._drop_saved("the engine has been restarted, or has published more than it can repeat")
            return
        self._forget_all()
        self._state.restarts += 1
        self._observer.engine_restarted(self._lane)

    def _drop_saved(self, reason: str) -> None:
        self._forget_all()
        self._observer.saved_view_dropped(self._lane, reason)

    def _forget_all(self, *, missing: bool = False) -> None:
        """`missing`: what the lane held until now cannot be had again."""
        self._index.clear(self._lane)
        self._hole_before = self._tracker.expected if missing else None
        self._is_verified = True
        self._stand_here()

    async def _close_gap(self, gap: Gap) -> None:
        self._state.gaps += 1
        if not self._is_verified:
            self._drop_saved(f"it ends before batch {gap.first}, and nothing tells what came up to {gap.last}")
        filled = await self._fill(gap)
        if not filled:
            self._state.unfilled_gaps += 1
            self._hole_before = gap.last + 1
        self._observer.gap_found(self._lane, gap, filled)

    async def _fill(self, gap: Gap) -> bool:
        """Applies what a replay has of the gap; whether that was all of it."""
        replay = await self._ask_replay(gap.first, gap.last)
        found: list[NumberedPayload] = []
        for batch in replay.batches:
            if (found[-1].seq if found else gap.first - 1) < batch.seq <= gap.last:
                found.append(batch)
        await self._apply_slices(found)
        return len(found) == len(gap)

    async def _catch_up(self) -> None:
        """After a (re)connection: finds out whether the process is the same, applies what it has published since."""
        if self._source.replay_endpoint is None:
            return
        last, mark = self._tracker.last, self._tracker.mark
        replay = await self._ask_replay(last or 0)
        if last is not None and replay.is_answered:
            if not _begins_with(replay, last, mark):
                self._tracker.reset()
                self._begin_anew()
                replay = await self._ask_replay(0)
            self._is_verified = True
        await self._take_history(replay.batches)
        self._is_current = replay.ended

    async def _take_history(self, batches: Iterable[NumberedPayload]) -> None:
        """Takes in the publisher's history; what is missing there cannot be had elsewhere."""
        fresh = [batch for batch in batches if self._tracker.expected <= batch.seq]
        for part in slices(fresh):
            self._splice(part)
            await asyncio.sleep(0)

    def _splice(self, batches: Sequence[NumberedPayload]) -> None:
        taken: list[NumberedPayload] = []
        for batch in batches:
            verdict = self._tracker.observe_replayed(batch.seq, batch.mark)
            if isinstance(verdict, Duplicate):
                continue
            if isinstance(verdict, Gap):
                self._state.gaps += 1
                self._state.unfilled_gaps += 1
                self._hole_before = batch.seq
                self._observer.gap_found(self._lane, verdict, False)
            taken.append(batch)
        self._apply([batch.seq for batch in taken], [batch.payload for batch in taken])
        self._stand_here()

    async def _ask_replay(self, start: int, last: int | None = None) -> Replay:
        """A replay, empty where there is nobody to ask.

        A publisher that let one request run into the deadline is not asked again on this connection: with every gap
        costing a deadline, the live stream would fall behind for good.
        """
        endpoint = self._source.replay_endpoint
        if endpoint is None or self._replay_is_mute:
            return Replay()
        self._state.replays += 1
        replay = await fetch_replay(self._context, endpoint, start, last, self._replay_deadline_s)
        self._replay_is_mute = not replay.is_answered
        self._state.undecodable += replay.undecodable
        return replay

    async def _apply_slices(self, batches: Sequence[NumberedPayload]) -> None:
        for part in slices(batches):
            self._apply([batch.seq for batch in part], [batch.payload for batch in part])
            await asyncio.sleep(0)

    def _apply(self, seqs: Sequence[int], payloads: list[bytes]) -> None:
        applied = 0
        for batches, report in self._applier.apply_many(payloads):
            applied += batches
            taken = seqs[applied - batches : applied]
            if isinstance(report, str):
                self._hole_before = taken[-1] + 1
                self._note_undecodable(report)
            else:
                self._note_applied(taken, report)
        self._state.last_event_at = asyncio.get_running_loop().time()

    def _note_applied(self, seqs: Sequence[int], report: ApplyReport) -> None:
        seq = seqs[-1]
        if report.cleared and self._hole_before is not None and seq >= self._hole_before:
            self._hole_before = None
        if report.reloaded:
            # The engine still holds what the lane was cleared of, but for the adapter's earlier loading.
            self._hole_before = seq + 1
        state = self._state
        state.batches += len(seqs)
        state.rejected += report.rejected
        state.unindexed += report.unindexed
        self._observer.batches_applied(self._lane, seqs, report)

    def _note_undecodable(self, reason: str) -> None:
        self._state.undecodable += 1
        self._observer.frame_undecodable(self._lane, reason)

    def _stand_here(self) -> None:
        """The index holds everything up to the tracker's last batch now."""
        last, mark = self._tracker.last, self._tracker.mark
        self._position = None if last is None or mark is None else Position(last, mark, self._hole_before is None)


def in_order(messages: Sequence[Sequence[bytes]], at: int, expected: int) -> list[bytes]:
    """The payloads from message `at` on, as far as they are numbered `expected`, `expected` + 1 and so on."""
    payloads = []
    for frames in itertools.islice(messages, at, None):
        if len(frames) < 2 or frames[-2] != expected.to_bytes(8):
            break
        payloads.append(frames[-1])
        expected += 1
    return payloads


def _begins_with(replay: Replay, seq: int, mark: int | None) -> bool:
    return bool(replay.batches) and (replay.batches[0].seq, replay.batches[0].mark) == (seq, mark)
