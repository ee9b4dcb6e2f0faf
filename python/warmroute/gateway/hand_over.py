"""One router takes over from another on the same machine, without a refused connection or a cut stream.

    new -> old   {"take_over": 1, "warmroute": "0.1.0"}
    old -> new   {"listeners": ["traffic", "admin"]}, with the sockets themselves (SCM_RIGHTS); the state is saved
                 the new one reads the state and asks the workers; both accept for a moment
    new -> old   {"ready": true}
                 the old one accepts nothing more, saves nothing more, finishes what it has, and ends

They meet at a socket beside the state file, `PORT.handover`, which is open to its owner alone; who asks is checked by
the kernel's word (SO_PEERCRED). If the new one ends before it is ready, nothing has happened.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from warmroute._native import __version__
from warmroute.errors import ConfigError
from warmroute.gateway.inherited import Inherited, from_descriptors

_log = logging.getLogger(__name__)

# Raised when routers could no longer understand each other.
_PROTOCOL = 1
# Of a path in sockaddr_un, with the zero at its end.
_LONGEST_PATH = 107
_LONGEST_MESSAGE = 4096
_MOST_SOCKETS = 64
# What the old router may take to save its state, and the new one to learn its workers' caches before it gives up.
TAKE_LIMIT_S = 30.0
_READY_LIMIT_S = 600.0


class _Asked(msgspec.Struct):
    take_over: int
    warmroute: str


class _Given(msgspec.Struct):
    listeners: list[str]


class _Ready(msgspec.Struct):
    ready: bool


def hand_over_path(state_path: Path | None) -> Path | None:
    """Where the routers of one port meet; None where no state is kept, as then there is no place for it."""
    return None if state_path is None else state_path.with_suffix(".handover")


@dataclass(slots=True)
class HandOver:
    """Waits for a router that wants to take over from this one.

    `give`: saves what the next one needs, and gives duplicates of the listening sockets by listener; `leave`: the next
    one is ready, so this one is to end.
    """

    path: Path | None
    give: Callable[[], Awaitable[list[tuple[str, int]]]]
    leave: Callable[[], None]
    _socket: socket.socket | None = None
    _task: asyncio.Task[None] | None = None
    _left: bool = field(default=False)

    def open(self) -> None:
        """Wait at the path from now on; a socket that lies there is replaced. Says so where that cannot be."""
        if self.path is None:
            return
        try:
            self._socket = _listening(self.path)
        except OSError as error:
            _log.warning("no router can take over from this one: %s: %s", self.path, error)
            return
        self._task = asyncio.create_task(self._run(self._socket), name="hand over")

    async def close(self) -> None:
        """Wait no more. The path is removed unless the next router waits there now."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if not self._left and self.path is not None:
                self.path.unlink(missing_ok=True)

    async def _run(self, waiting: socket.socket) -> None:
        """One after the other: two cannot take over."""
        loop = asyncio.get_running_loop()
        while not self._left:
            asking, _ = await loop.sock_accept(waiting)
            with asking:
                try:
                    await self._hand_over(asking)
                except (OSError, TimeoutError, msgspec.DecodeError) as error:
                    _log.warning("a hand-over was given up: %s", error or "it took too long")
                except Exception:
                    _log.exception("a hand-over failed")

    async def _hand_over(self, asking: socket.socket) -> None:
        asking.setblocking(False)
        user = peer_user(asking)
        if user not in (os.geteuid(), 0):
            _log.warning("user %d may not take over from this router", user)
            return
        async with asyncio.timeout(TAKE_LIMIT_S):
            asked = msgspec.json.decode(await _line(asking), type=_Asked)
            if asked.take_over != _PROTOCOL:
                _log.warning("a router of version %s asks in a way that this one does not know", asked.warmroute)
                return
            given = await self.give()
        _log.info("a router of version %s is taking over", asked.warmroute)
        try:
            message = msgspec.json.encode(_Given([listener for listener, _ in given])) + b"\n"
            socket.send_fds(asking, [message], [descriptor for _, descriptor in given])
        finally:
            for _, descriptor in given:
                os.close(descriptor)
        async with asyncio.timeout(_READY_LIMIT_S):
            said = await _line(asking)
        if not said or not msgspec.json.decode(said, type=_Ready).ready:
            _log.warning("the router that was taking over has ended; this one goes on")
            return
        self._left = True
        self.leave()


@dataclass(slots=True)
class TakeOver:
    """The other end: what a router got from the one before, until it says that it is ready."""

    inherited: Inherited
    _asked: socket.socket

    async def ready(self) -> None:
        """The one before may leave."""
        with self._asked, contextlib.suppress(OSError):  # it may have ended by itself meanwhile: then nobody waits
            await asyncio.get_running_loop().sock_sendall(self._asked, msgspec.json.encode(_Ready(True)) + b"\n")

    def close(self) -> None:
        """Give up, if `ready` has not been said: the one before goes on."""
        self._asked.close()
        self.inherited.close()


async def take_over(path: Path | None) -> TakeOver | None:
    """Ask the router that waits at `path` for its listening sockets; None, and one line in the log, where none does.

    Raises ConfigError where one answers that cannot be understood, or takes too long.
    """
    if path is None:
        raise ConfigError("--take-over needs a state file: the routers meet beside it")
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    asked.setblocking(False)
    try:
        async with asyncio.timeout(TAKE_LIMIT_S):
            await asyncio.get_running_loop().sock_connect(asked, str(path))
            await asyncio.get_running_loop().sock_sendall(
                asked, msgspec.json.encode(_Asked(_PROTOCOL, __version__)) + b"\n"
            )
            named = await _sockets(asked)
        return TakeOver(from_descriptors(named), asked)
    except (FileNotFoundError, ConnectionRefusedError):
        asked.close()
        _log.info("there is no router to take over from at %s; this one begins by itself", path)
        return None
    except (OSError, TimeoutError, msgspec.DecodeError, ConfigError) as error:
        asked.close()
        raise ConfigError(f"the router at {path} does not hand over: {error or 'it takes too long'}") from error


async def _sockets(asked: socket.socket) -> list[tuple[str, int]]:
    """The sockets that come with the answer, each with its listener."""
    message, descriptors = await _when_readable(
        asked, lambda: socket.recv_fds(asked, _LONGEST_MESSAGE, _MOST_SOCKETS)[:2]
    )
    try:
        listeners = msgspec.json.decode(message, type=_Given).listeners
        if len(listeners) != len(descriptors):
            raise ConfigError(f"{len(listeners)} sockets are announced and {len(descriptors)} came")
    except (msgspec.DecodeError, ConfigError):
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return list(zip(listeners, descriptors, strict=True))


async def _when_readable(
    asked: socket.socket, receive: Callable[[], tuple[bytes, list[int]]]
) -> tuple[bytes, list[int]]:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(asked.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(asked.fileno())
    return receive()


async def _line(peer: socket.socket) -> bytes:
    """One short message; empty where the peer has gone."""
    loop = asyncio.get_running_loop()
    message = b""
    while not message.endswith(b"\n") and len(message) < _LONGEST_MESSAGE:
        piece = await loop.sock_recv(peer, _LONGEST_MESSAGE)
        if not piece:
            return b""
        message += piece
    return message


def peer_user(peer: socket.socket) -> int:
    """The user of the process at the other end of a Unix socket, as the kernel knows it."""
    _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


def _listening(path: Path) -> socket.socket:
    """A socket that listens at `path`, for its owner alone from the first moment on: it is renamed into place."""
    made_at = path.with_name(f".{path.name}.{os.getpid()}")
    if len(os.fsencode(made_at)) > _LONGEST_PATH:
        raise OSError("the path is too long for a socket")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made_at.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.bind(str(made_at))
        made_at.chmod(0o600)
        listening.listen(4)
        made_at.rename(path)
    except OSError:
        listening.close()
        made_at.unlink(missing_ok=True)
        raise
    return listening
