"""Takes a changed configuration over while requests run; one that cannot be used changes nothing.

    SIGHUP, a changed file, POST /warmroute/reload
      -> read anew -> every part prepares, and may refuse -> every part applies

What an option does not allow to change while the router runs keeps its value, and is named.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from warmroute.config import changed_options
from warmroute.errors import WarmrouteError
from warmroute.gateway.configuration import Configuration, FileWatch, ReadConfiguration
from warmroute.gateway.page_types import ReloadReport

_log = logging.getLogger(__name__)

Apply = Callable[[], Awaitable[None]]
Prepare = Callable[[Configuration, Configuration], Apply]
"""One part of the router is asked whether it can go from the first configuration to the second, and how it does.

Raises a WarmrouteError where it cannot; changes nothing before its result is called.
"""

# A change is taken over once a file has rested for one more look: within two to four seconds.
WATCH_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Reload:
    """What became of one reload; `at` in seconds, monotonic."""

    occasion: str
    at: float
    changed: Sequence[str] = ()
    needs_restart: Sequence[str] = ()
    error: str | None = None

    def report(self, now: float) -> ReloadReport:
        """As the state page shows it."""
        return {
            "occasion": self.occasion,
            "ago_s": now - self.at,
            "changed": list(self.changed),
            "needs_restart": list(self.needs_restart),
            "error": self.error,
        }


def merged(old: Configuration, told: Configuration) -> tuple[Configuration, list[str], list[str]]:
    """What holds when `told` has been taken over, the options that this changes, and those that need a restart."""
    changed: list[str] = []
    needs_restart: list[str] = []
    new = told
    for name, options in told.options():
        before = getattr(old, name)
        live, fixed = changed_options(before, options)
        kept = dataclasses.replace(options, **{each: getattr(before, each) for each in fixed})
        new = dataclasses.replace(new, **{name: kept})
        changed += live
        needs_restart += fixed
    return new, changed, needs_restart


@dataclass(slots=True)
class Reloader:
    """Owns the configuration that holds now; `parts` are asked in their order."""

    current: Configuration
    read: ReadConfiguration
    parts: list[Prepare] = field(default_factory=list)
    last: Reload | None = field(default=None, init=False)
    _asked: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _one_by_one: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _watch: FileWatch = field(default_factory=FileWatch, init=False)

    def ask(self) -> None:
        """Reload soon; for signal handlers."""
        self._asked.set()

    async def run(self) -> None:
        """Reload when asked or when a file has changed, until cancelled; a fault in one reload never ends it."""
        self._watch.changed(self.current.files())
        while True:
            try:
                await asyncio.wait_for(self._asked.wait(), WATCH_INTERVAL_S)
            except TimeoutError:
                if self.current.serve.watch_config and self._watch.changed(self.current.files()):
                    await self.reload("a file has changed")
                continue
            self._asked.clear()
            await self.reload("SIGHUP")

    async def reload(self, occasion: str) -> Reload:
        """Take over what has changed, all of it or nothing; what became of it."""
        async with self._one_by_one:
            try:
                self.last = await self._take_over(occasion)
            except WarmrouteError as error:
                self.last = Reload(occasion, time.monotonic(), error=str(error))
                _log.error("the configuration stays as it was: %s", error)
            except Exception as error:
                self.last = Reload(occasion, time.monotonic(), error=f"a fault of the router: {error!r}")
                _log.exception("the configuration was not taken over")
            return self.last

    async def _take_over(self, occasion: str) -> Reload:
        old = self.current
        new, changed, needs_restart = merged(old, self.read())
        for apply in [prepare(old, new) for prepare in self.parts]:
            await apply()
        self.current = new
        if old.specs != new.specs:
            changed.append("workers")
        _log.info("configuration reloaded (%s); changed: %s", occasion, ", ".join(changed) or "nothing")
        if needs_restart:
            _log.warning("needs a restart: %s", ", ".join(needs_restart))
        return Reload(occasion, time.monotonic(), changed, needs_restart)
