"""The way of one engine's KV events to the index: late, and with losses that are noticed and made good.

The bytes are those of an engine, and what reads, numbers and applies them is what serves; only ZeroMQ is left out.
"""

import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from warmroute.emulator.kv_wire import KvWire
from warmroute.engine_model import KvChange
from warmroute.kv_event.apply import EventApplier
from warmroute.kv_event.sequence import Gap, SequenceTracker
from warmroute.prefix_index import PrefixIndex
from warmroute.simulator.workload import EventPath
from warmroute.worker import LaneKey

# Frames that a publisher can repeat: vLLM's default `buffer_steps`.
_BUFFERED = 10_000


class _Frame(NamedTuple):
    due_at: float
    number: int
    payload: bytes


class EventStream:
    """The events of one lane, published by one engine process after the other."""

    def __init__(self, index: PrefixIndex, lane: LaneKey, path: EventPath, rng: random.Random) -> None:
        self._index, self._lane = index, lane
        self._path, self._rng = path, rng
        self._wire = KvWire("map")
        self._applier = EventApplier(index, lane)
        self._tracker = SequenceTracker()
        self._coming: deque[_Frame] = deque()
        self._published: deque[_Frame] = deque(maxlen=_BUFFERED)
        self._next = 0
        self._gap: Gap | None = None
        self._gap_filled_at = 0.0
        self.lost = 0
        self.gaps = 0

    @property
    def delay_s(self) -> float:
        """From an event to its arrival, in seconds."""
        return self._path.delay_s

    def publish(self, changes: Sequence[KvChange], due_at: float) -> float | None:
        """Send a batch that comes at `due_at`; None where there is nothing to send, or it gets lost."""
        if not changes:
            return None
        frame = _Frame(due_at, self._next, self._wire.batch(due_at, changes))
        self._next += 1
        self._published.append(frame)
        if self._path.loss and self._rng.random() < self._path.loss:
            self.lost += 1
            return None
        self._coming.append(frame)
        return frame.due_at

    def take(self, now: float) -> float | None:
        """Apply what has come by now; when to look again, where the rest waits for what is missing before it."""
        while self._coming and self._coming[0].due_at <= now:
            frame = self._coming[0]
            if frame.number > self._tracker.expected and not self._fill(frame.number, now):
                return self._gap_filled_at
            self._coming.popleft()
            self._tracker.observe(frame.number)
            self._applier.apply(frame.payload)
        return None

    def begin_anew(self) -> None:
        """Another engine process is connected to: what the last one held is gone, and its numbers start at 0."""
        self._coming.clear()
        self._published.clear()
        self._next, self._gap = 0, None
        self._tracker.reset()
        self._applier.reset()
        self._index.clear(self._lane)

    def _fill(self, before: int, now: float) -> bool:
        """Whether what is missing before a batch is there: asked for when it is noticed, it takes a way and back."""
        if self._gap is None:
            self._gap = Gap(self._tracker.expected, before - 1)
            self._gap_filled_at = now + 2 * self._path.delay_s
            self.gaps += 1
        if now < self._gap_filled_at:
            return False
        for frame in self._published:
            if self._gap.first <= frame.number <= self._gap.last:
                self._tracker.observe_replayed(frame.number, 0)
                self._applier.apply(frame.payload)
        self._gap = None
        return True
