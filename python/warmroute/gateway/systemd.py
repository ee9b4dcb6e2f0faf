"""What systemd is told of the router's life, where it started it with `Type=notify` (sd_notify(3))."""

import logging
import os
import socket
from collections.abc import Mapping

_log = logging.getLogger(__name__)

STOPPING = "STOPPING=1"


def ready(pid: int) -> str:
    """The router serves, and is the process to watch: after a hand-over it is another one than before."""
    return f"READY=1\nMAINPID={pid}"


def notify(environ: Mapping[str, str], state: str) -> None:
    """Tell systemd, if it wants to be told. That it cannot be told is logged, and costs nothing else."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    path = os.fsencode(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as told:
        try:
            told.sendto(state.encode(), b"\0" + path[1:] if address.startswith("@") else path)
        except OSError as error:
            _log.warning("systemd cannot be told that %s: %s", state.partition("\n")[0], error)
