"""What can be known about a subscription from outside: its counters, and the moments an observer is told of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from warmroute.kv_event.apply import ApplyReport
from warmroute.kv_event.sequence import Gap


@dataclass(slots=True)
class SubscriptionState:
    """A snapshot. Counts are since the subscription began; `last_event_at` is monotonic, in seconds.

    `complete` says whether the index holds what the engine holds, as far as can be told: every batch since the engine
    started, or since it last cleared its cache, has been read and nothing newer is known to be missing. It is False
    until the first contact, while disconnected, and for good (until a clear or a restart) after a gap that no replay
    fills or a batch that cannot be read. Single events that cannot be read are counted in `rejected` only.
    """

    connected: bool = False
    last_seq: int | None = None
    batches: int = 0
    gaps: int = 0
    unfilled_gaps: int = 0
    replays: int = 0
    restarts: int = 0
    duplicates: int = 0
    rejected: int = 0
    unindexed: int = 0
    undecodable: int = 0
    resyncs: int = 0
    complete: bool = False
    last_event_at: float | None = None


class SubscriptionObserver(Protocol):
    """Told of what happens to one lane's events. `worker` is the lane's key.

    Called on the lane's listening thread, never on the router's own: an implementation touches nothing that is not safe
    to touch from there, returns at once and does not raise. One lane's calls never overlap.
    """

    def connection_changed(self, worker: int, connected: bool) -> None:
        """The publisher was reached, or lost."""

    def batches_applied(self, worker: int, seqs: Sequence[int], report: ApplyReport) -> None:
        """Batches are in the index now; the report is of all of them together."""

    def gap_found(self, worker: int, gap: Gap, filled: bool) -> None:
        """Batches were missed; `filled`: a replay has brought them all."""

    def engine_restarted(self, worker: int) -> None:
        """Another engine process publishes; what the index held of the old one has been cleared."""

    def saved_view_dropped(self, worker: int, reason: str) -> None:
        """What an earlier process of the router had saved does not hold any more, and has been cleared."""

    def frame_undecodable(self, worker: int, reason: str) -> None:
        """A message or its payload could not be read, and its events are lost."""


class Unobserved:
    """The observer of those who need none."""

    def connection_changed(self, worker: int, connected: bool) -> None:
        pass

    def batches_applied(self, worker: int, seqs: Sequence[int], report: ApplyReport) -> None:
        pass

    def gap_found(self, worker: int, gap: Gap, filled: bool) -> None:
        pass

    def engine_restarted(self, worker: int) -> None:
        pass

    def saved_view_dropped(self, worker: int, reason: str) -> None:
        pass

    def frame_undecodable(self, worker: int, reason: str) -> None:
        pass
