"""What systemd hears."""

import socket
from pathlib import Path

from warmroute.gateway import systemd


def test_it_is_told_at_the_socket_that_it_named(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        systemd.notify({"NOTIFY_SOCKET": str(path)}, systemd.ready(7))
        assert listening.recv(100) == b"READY=1\nMAINPID=7"


def test_an_abstract_socket_is_one_without_a_file() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(b"\0warmroute-test-notify")
        systemd.notify({"NOTIFY_SOCKET": "@warmroute-test-notify"}, systemd.STOPPING)
        assert listening.recv(100) == b"STOPPING=1"


def test_where_nobody_listens_nothing_is_raised(tmp_path: Path) -> None:
    systemd.notify({}, systemd.STOPPING)
    systemd.notify({"NOTIFY_SOCKET": "vsock:2:1234"}, systemd.STOPPING)
    systemd.notify({"NOTIFY_SOCKET": str(tmp_path / "nobody")}, systemd.STOPPING)
