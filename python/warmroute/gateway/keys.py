"""API keys of the router's own: who may send requests, and who may look at the fleet and change it.

A file of keys has one of them on each line, `NAME ROLE sha256:HEX`, and holds no key itself: a key is 256 random bits,
so its plain SHA-256 cannot be turned back, and no slow hash is needed to protect it. Looking a request's key up takes
1.5 us.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from warmroute.errors import ConfigError

_PREFIX = "wr-"
_HASH = "sha256:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Role(StrEnum):
    """What a key is good for; an admin may do what traffic may."""

    TRAFFIC = "traffic"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Key:
    """One key as the file has it; its name is the tenant of the requests that come with it."""

    name: str
    role: Role
    digest: bytes

    @property
    def line(self) -> str:
        """The key as a line of the file."""
        return f"{self.name} {self.role} {_HASH}{self.digest.hex()}"

    def may(self, role: Role) -> bool:
        """Whether the key is good for what needs `role`."""
        return self.role in (role, Role.ADMIN)


def new_key(name: str, role: Role) -> tuple[str, Key]:
    """A key to give away, once, and what the file has of it. Raises ConfigError for a name that a line cannot hold."""
    _check_name(name, "the name")
    secret = _PREFIX + secrets.token_urlsafe(32)
    return secret, Key(name, role, _digest(secret))


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys that are good now."""

    keys: tuple[Key, ...]
    _by_digest: dict[bytes, Key] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_digest.update({key.digest: key for key in self.keys})

    def key_of(self, presented: str) -> Key | None:
        """Which key somebody has presented; None for one that is not known.

        Neither how long it takes nor where it fails tells of a digest more than a random other one.
        """
        digest = _digest(presented)
        key = self._by_digest.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None


def read_keys(path: Path) -> KeyRing:
    """The keys of a file. Raises ConfigError that names the line, never what stands in it: it may be a key."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the API keys in {path} cannot be read: {error}") from error
    keys = tuple(_keys(lines, path))
    if not keys:
        raise ConfigError(f"{path} has no API key; make one with 'warmroute keys new NAME'")
    if len({key.name for key in keys}) < len(keys) or len({key.digest for key in keys}) < len(keys):
        raise ConfigError(f"{path} has a name or a key twice")
    return KeyRing(keys)


def _keys(lines: list[str], path: Path) -> Iterator[Key]:
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if words:
            yield _key(words, f"line {number} of {path}")


def _key(words: list[str], where: str) -> Key:
    if len(words) != 3:
        raise ConfigError(f"{where} must be 'NAME ROLE {_HASH}HEX', as 'warmroute keys new NAME' prints it")
    name, role, digest = words
    _check_name(name, f"the name on {where}")
    if role not in tuple(Role):
        raise ConfigError(f"the role on {where} must be one of {', '.join(Role)}")
    if re.fullmatch(_HASH + "[0-9a-f]{64}", digest) is None:
        raise ConfigError(f"{where} must end with {_HASH} and 64 hexadecimal digits")
    return Key(name, Role(role), bytes.fromhex(digest.removeprefix(_HASH)))


def _check_name(name: str, what: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{what} must have 1 to 64 letters, digits and . _ @ -")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
