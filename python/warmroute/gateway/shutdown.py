"""How a router ends: it says that it leaves, takes nothing new, finishes what it has, and is cut short when told twice.

told -> (/ready says draining for `drain_delay_s`) -> accepts nothing -> `grace_s` for what is in flight -> ended
"""

import asyncio
import logging
import signal
from dataclasses import dataclass, field

from warmroute.gateway.options import ServeConfig
from warmroute.gateway.relay import RelayServer

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Shutdown:
    """Whether the router is to end, and whether somebody has lost patience."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    hurried: asyncio.Event = field(default_factory=asyncio.Event)
    handed_over: bool = False
    """Another process has the listening sockets: nothing that this one knows is of use to anybody any more."""

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT begin the shutdown; a second one of either cuts it short."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.tell)

    def tell(self) -> None:
        """Begin to end; told again, end at once."""
        if self.begun.is_set():
            self.hurried.set()
        self.begun.set()

    async def rest(self, seconds: float) -> None:
        """Wait so long, or until somebody loses patience."""
        if seconds > 0:
            try:
                await asyncio.wait_for(self.hurried.wait(), seconds)
            except TimeoutError:
                return


async def finish(relay: RelayServer, shutdown: Shutdown, config: ServeConfig) -> None:
    """Accept nothing more, let what is in flight end for at most the configured time, then cut off the rest."""
    grace_s = config.hand_over_grace_s if shutdown.handed_over else config.grace_s
    _log.info("shutting down; %d requests in flight get %g s to finish", relay.in_flight(), grace_s)
    closing = asyncio.create_task(relay.close(grace_s))
    patience = asyncio.create_task(shutdown.hurried.wait())
    await asyncio.wait((closing, patience), return_when=asyncio.FIRST_COMPLETED)
    patience.cancel()
    if not closing.done():
        _log.warning("told again; %d requests in flight are cut off", relay.in_flight())
        await relay.close(0.0)
    await closing
