"""Listening sockets that another process has opened: systemd's, by socket activation, or those of a router before.

systemd gives descriptors from 3 on and says in LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES whose, how many and which
(sd_listen_fds(3)). Those named `traffic` and `admin` are taken for what they say (`FileDescriptorName=` of the socket
unit); without such names the first is the traffic's and the second the pages'.
"""

import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field

from warmroute.errors import ConfigError

TRAFFIC, ADMIN = "traffic", "admin"
LISTENERS = (TRAFFIC, ADMIN)

_FIRST_OF_SYSTEMD = 3


@dataclass(slots=True)
class Inherited:
    """Listening sockets by the name of what is served there; what is not taken is closed at the end."""

    sockets: dict[str, list[socket.socket]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.sockets.values())

    def take(self, listener: str) -> list[socket.socket]:
        """The sockets of this listener, which are the taker's from now on."""
        return self.sockets.pop(listener, [])

    def close(self) -> None:
        """Let go of what nobody took."""
        for sockets in self.sockets.values():
            for each in sockets:
                each.close()
        self.sockets.clear()


def from_descriptors(named: list[tuple[str, int]]) -> Inherited:
    """Takes over descriptors; raises ConfigError, and closes all of them, for one that no connection can come from."""
    made = Inherited()
    bad: str | None = None
    for listener, descriptor in named:
        os.set_inheritable(descriptor, False)
        given = socket.socket(fileno=descriptor)
        given.setblocking(False)
        made.sockets.setdefault(listener, []).append(given)
        if given.family not in (socket.AF_INET, socket.AF_INET6) or not _listens(given):
            bad = f"the socket handed over for {listener} is none on which TCP connections are awaited"
    if bad is not None:
        made.close()
        raise ConfigError(bad)
    return made


def from_systemd(environ: MutableMapping[str, str], pid: int) -> Inherited:
    """What systemd has opened for this process; its variables are taken out, so that no child believes them.

    Raises ConfigError for variables, or sockets, that cannot be used.
    """
    told = {name: environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if not told["LISTEN_FDS"] or told["LISTEN_PID"] != str(pid):
        return Inherited()
    if not told["LISTEN_FDS"].isdecimal():
        raise ConfigError(f"LISTEN_FDS must be a number, not '{told['LISTEN_FDS']}'")
    count = int(told["LISTEN_FDS"])
    names = told["LISTEN_FDNAMES"].split(":")
    if len(names) != count or not set(names) <= set(LISTENERS):
        names = [*LISTENERS[:count], *[TRAFFIC] * (count - len(LISTENERS))]
    return from_descriptors([(name, _FIRST_OF_SYSTEMD + position) for position, name in enumerate(names)])


def _listens(given: socket.socket) -> bool:
    return given.type == socket.SOCK_STREAM and given.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
