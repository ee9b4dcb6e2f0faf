"""What follows one lane's KV events, whatever the transport: the shape that `Subscription` and its likes have.

A listener lives on a listening thread (see `warmroute.kv_event.listening`). What it may be asked from elsewhere is
said method by method.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from warmroute.kv_event.subscription_state import SubscriptionState


@dataclass(frozen=True, slots=True)
class EventSource:
    """Where one engine process (one data-parallel rank) publishes, as addresses to connect to: `tcp://host:port`.

    Without `replay_endpoint` a late join or a gap leaves the view incomplete. `topic` is a prefix; "" takes all.
    `rank` is the data-parallel rank, None where the engine has only one. `label` is what logs call it, where that is
    not the address; `session` makes the connections over which one that is polled is asked.
    """

    endpoint: str
    replay_endpoint: str | None = None
    topic: str = ""
    rank: int | None = None
    label: str = field(default="", compare=False)
    session: Callable[[], aiohttp.ClientSession] = field(default=aiohttp.ClientSession, compare=False, repr=False)

    @property
    def shown(self) -> str:
        """What logs call it."""
        return self.label or self.endpoint


@dataclass(frozen=True, slots=True)
class Position:
    """How far a lane's view has come: the last batch that is in the index.

    `mark` tells that batch from another process's of the same number; it is the same in every process of the router.
    `complete` is False where batches before it are known to be missing.
    """

    seq: int
    mark: int
    complete: bool = True


class Listener(Protocol):
    """Keeps the index in step with one publisher."""

    async def run(self) -> None:
        """Follows the publisher until cancelled, through its restarts and absences. Once, on the listening thread.

        The lane begins empty, unless the listener was given a position to go on from. Raises ConfigError where an
        endpoint is no address.
        """

    def state(self) -> SubscriptionState:
        """A snapshot of the counters. From any thread."""

    def position(self) -> Position | None:
        """The last batch in the index, or None where nothing can be gone on from. From any thread."""

    async def snapshot(self) -> tuple[Position | None, bytes]:
        """The position and the lane's blocks at it (`PrefixIndex.dump`). On the listening thread, between batches."""

    async def resync(self) -> None:
        """Forgets the lane's blocks and learns them again, as far as the publisher can tell. On the listening thread.

        What cannot be had again leaves the view incomplete.
        """
