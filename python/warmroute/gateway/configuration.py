"""Everything that a router has been told, and which files that depends on."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmroute.admission import FailoverOptions
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.relay import RelayOptions
from warmroute.worker import WorkerSpec


@dataclass(frozen=True, slots=True)
class Configuration:
    """All options, the workers with the fleet-wide answers filled in, the file."""

    serve: ServeConfig
    relay: RelayOptions = field(default_factory=RelayOptions)
    specs: tuple[WorkerSpec, ...] = ()
    file: Path | None = None
    access: AccessOptions = field(default_factory=AccessOptions)
    failover: FailoverOptions = field(default_factory=FailoverOptions)

    def files(self) -> tuple[Path, ...]:
        """The files that are worth a reload when they change."""
        named = (self.file, self.access.api_keys, self.access.worker_api_key_file)
        return tuple(Path(each).expanduser() for each in (*named, *self.access.tls_files()) if each is not None)

    def options(self) -> Iterator[tuple[str, Any]]:
        """Each class of options that is in here, by its field."""
        for part in dataclasses.fields(self):
            value = getattr(self, part.name)
            if dataclasses.is_dataclass(value):
                yield part.name, value


ReadConfiguration = Callable[[], Configuration]
"""Reads command line, environment and file anew. Raises ConfigError."""


@dataclass(slots=True)
class FileWatch:
    """Notices that files have changed, by time, size and identity, so that a file that is replaced counts as well."""

    _seen: dict[Path, tuple[int, int, int] | None] = field(default_factory=dict)
    _restless: bool = False

    def changed(self, paths: tuple[Path, ...]) -> bool:
        """Whether one of `paths` is another than when it was first asked for, and none has moved since the last look.

        So a file is not read while somebody writes it, and several that belong together are read together.
        """
        now = {path: _mark(path) for path in paths}
        moved = any(self._seen[path] != mark for path, mark in now.items() if path in self._seen)
        self._seen = now
        settled, self._restless = self._restless and not moved, moved
        return settled


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
