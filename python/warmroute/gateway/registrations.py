"""What people have changed about the workers while the router ran, kept for its next start: `PORT.workers`.

    {"warmroute": "0.1.0", "added": [{"url": "http://10.0.0.7:8000", ...}], "draining": ["http://10.0.0.5:8000"]}

The file stands beside the state file and is written whenever something of it changes.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from warmroute._native import __version__
from warmroute.errors import ConfigError
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.options import worker_spec
from warmroute.gateway.origin import Origin
from warmroute.gateway.state_file import replace_file
from warmroute.worker import WorkerId, WorkerSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """What a file of registrations holds."""

    added: tuple[WorkerSpec, ...] = ()
    draining: frozenset[WorkerId] = frozenset()


class _File(msgspec.Struct):
    warmroute: str
    added: list[dict[str, Any]]
    draining: list[str]


def registrations_path(state_path: Path | None) -> Path | None:
    """The file that belongs to a state file; None where there is none."""
    return None if state_path is None else state_path.with_suffix(".workers")


def read_registrations(path: Path | None) -> Registered:
    """What the file holds; nothing, and one line in the log, where it cannot be used."""
    if path is None or not path.is_file():
        return Registered()
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
        added = tuple(worker_spec(values, where=str(path)) for values in file.added)
    except (OSError, msgspec.DecodeError, ConfigError) as error:
        _log.warning("%s is not used: %s; workers that were added before have to be added again", path, error)
        return Registered()
    return Registered(added, frozenset(map(WorkerId, file.draining)))


@dataclass(slots=True)
class Registrations:
    """Keeps the file at `path` as the fleet is; with None it keeps nothing."""

    path: Path | None
    fleet: Fleet
    _written: bytes | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def begin(self, configured: Sequence[WorkerSpec], registered: Registered) -> None:
        """Take in the workers that are configured and those that were added; write down what changes from now on."""
        for spec in configured:
            self.fleet.add(spec)
        for spec in registered.added:
            if self.fleet.member(spec.id) is None:
                self.fleet.add(spec, Origin.ADDED)
        for member in self.fleet.members:
            if member.worker.id in registered.draining:
                self.fleet.set_draining(member.worker, True)
        if self.path is not None:
            self._written = self._content()
            self.fleet.changed = self._changed.set
            self._task = asyncio.create_task(self._run(), name="keep registrations")

    async def close(self) -> None:
        """Write a last time, and no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self._write()

    async def save(self) -> None:
        """Write the file now, if something has changed."""
        await self._write()

    def abandon(self) -> None:
        """Write nothing more: the file is another process's now."""
        self.path = None

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._write()

    async def _write(self) -> None:
        content = self._content()
        if content == self._written or self.path is None:
            return
        try:
            await asyncio.to_thread(replace_file, self.path, [content])
        except OSError as error:
            _log.warning(
                "%s cannot be written: %s; workers that were added are forgotten at a restart", self.path, error
            )
        self._written = content

    def _content(self) -> bytes:
        members = self.fleet.members
        added = [_keys(member.worker.spec) for member in members if member.origin is Origin.ADDED]
        draining = [str(member.worker.id) for member in members if member.worker.draining]
        return msgspec.json.encode(_File(__version__, added, draining)) + b"\n"


def _keys(spec: WorkerSpec) -> dict[str, Any]:
    """The keys that `worker_spec` reads, without those that say nothing."""
    return {key: value for key, value in msgspec.to_builtins(spec).items() if value not in (None, "")}
