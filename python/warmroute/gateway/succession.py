"""What a router gets from the one before it, and gives to the one after."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.gateway.fleet import Fleet
from warmroute.gateway.hand_over import HandOver, TakeOver, hand_over_path, take_over
from warmroute.gateway.inherited import Inherited
from warmroute.gateway.registrations import Registrations
from warmroute.gateway.relay import RelayServer
from warmroute.gateway.shutdown import Shutdown
from warmroute.gateway.state_keeper import StateKeeper
from warmroute.worker import WorkerStatus

_log = logging.getLogger(__name__)

# The one before serves meanwhile, so there is time; but a worker that is away must not hold up its successor.
_KNOWN_LIMIT_S = 20.0
_LOOK_S = 0.05


@dataclass(slots=True)
class Succession:
    """One router's place in a line of routers: `inherited` are listening sockets, of systemd or of the one before."""

    state_path: Path | None
    shutdown: Shutdown
    inherited: Inherited = field(default_factory=Inherited)
    _taken: TakeOver | None = field(default=None, init=False)

    async def receive(self) -> None:
        """Take over from the router that runs, which has saved its state when this returns. Raises ConfigError."""
        self._taken = await take_over(hand_over_path(self.state_path))
        if self._taken is not None:
            self.inherited.close()
            self.inherited = self._taken.inherited

    async def wait_until_known(self, fleet: Fleet) -> None:
        """Where another router serves meanwhile, wait until every worker has been asked and its cache is known."""
        if self._taken is None:
            return
        ends_at = time.monotonic() + _KNOWN_LIMIT_S
        while not _is_known(fleet):
            if time.monotonic() > ends_at:
                _log.warning("not all workers are known after %g s; they will be", _KNOWN_LIMIT_S)
                return
            await asyncio.sleep(_LOOK_S)

    async def serve(
        self, stack: AsyncExitStack, keeper: StateKeeper, registrations: Registrations, relays: Sequence[RelayServer]
    ) -> None:
        """The router listens: the one before may leave, and another one may come. `stack` ends the waiting for it."""

        async def give() -> list[tuple[str, int]]:
            await keeper.save()
            await registrations.save()
            return [given for relay in relays for given in relay.listener_fds()]

        def leave() -> None:
            self.shutdown.handed_over = True
            keeper.abandon()
            registrations.abandon()
            for relay in relays:
                relay.stop_accepting()
            self.shutdown.begun.set()
            _log.info("another router has taken over; this one finishes its requests")

        if self._taken is not None:
            await self._taken.ready()
            self._taken = None
        next_one = HandOver(hand_over_path(self.state_path), give, leave)
        next_one.open()
        stack.push_async_callback(next_one.close)

    def close(self) -> None:
        """Let go of what was not taken; a router before that has not been told otherwise goes on."""
        if self._taken is not None:
            self._taken.close()
        self.inherited.close()


def _is_known(fleet: Fleet) -> bool:
    now = time.monotonic()
    return not any(member.worker.status is WorkerStatus.STARTING or member.catching_up(now) for member in fleet.members)
