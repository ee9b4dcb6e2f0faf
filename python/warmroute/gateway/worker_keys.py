"""The keys that the router itself shows to workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from warmroute.errors import ConfigError

Headers = Sequence[tuple[str, str]]

CREDENTIALS = ("authorization", "x-api-key")
"""The headers in which clients show a key: OpenAI's and Anthropic's."""


@dataclass(frozen=True, slots=True)
class WorkerKeys:
    """A key for all workers, and those of single ones by their origin (`http://host:port`)."""

    for_all: str | None = None
    own: Mapping[str, str] = field(default_factory=dict)

    def of(self, url: str) -> str | None:
        """The key of the worker that has this URL, or a page of it; None where it gets none."""
        return self.own.get(_origin(url), self.for_all) if self.own else self.for_all

    def instead_of_the_clients(self, url: str) -> Headers:
        """What a worker gets in place of the key that its client has shown to the router.

        An empty value means that the header does not reach the worker at all.
        """
        key = self.of(url)
        return (("authorization", "" if key is None else f"Bearer {key}"), ("x-api-key", ""))


def read_worker_keys(path: Path) -> WorkerKeys:
    """A file with a key on a line, for all workers, or `URL KEY` for one. Raises ConfigError that shows no key."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the workers' API keys in {path} cannot be read: {error}") from error
    for_all: list[str] = []
    own: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if not all(word.isascii() and word.isprintable() for word in words):
            raise ConfigError(f"line {number} of {path} holds a character that no header has")
        if len(words) == 1:
            for_all.append(words[0])
        elif len(words) == 2 and "://" in words[0] and _origin(words[0]) not in own:
            own[_origin(words[0])] = words[1]
        else:
            raise ConfigError(f"line {number} of {path} must be 'KEY', for all workers, or 'URL KEY', once for each")
    if len(for_all) > 1:
        raise ConfigError(f"{path} has {len(for_all)} keys for all workers; write 'URL KEY' for single ones")
    if not for_all and not own:
        raise ConfigError(f"{path} has no key")
    return WorkerKeys(for_all[0] if for_all else None, own)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
