"""Two routers meet at a Unix socket: the listening sockets change hands, or nothing has happened."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.fleet_of_one import until
from warmroute.errors import ConfigError
from warmroute.gateway import hand_over
from warmroute.gateway.hand_over import HandOver, hand_over_path, take_over
from warmroute.gateway.inherited import from_descriptors, from_systemd


@dataclass
class Before:
    """A router that may be taken over, with one listening socket."""

    listening: socket.socket
    given: int = 0
    left: bool = False
    hand_over: HandOver = field(init=False)

    async def give(self) -> list[tuple[str, int]]:
        self.given += 1
        return [("traffic", os.dup(self.listening.fileno()))]

    def leave(self) -> None:
        self.left = True


@asynccontextmanager
async def before(path: Path) -> AsyncIterator[Before]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = Before(listening)
        made.hand_over = HandOver(path, made.give, made.leave)
        made.hand_over.open()
        try:
            yield made
        finally:
            await made.hand_over.close()


async def test_the_sockets_change_hands_and_the_one_before_leaves_when_the_next_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "8080.handover"
    async with before(path) as old:
        assert path.stat().st_mode & 0o777 == 0o600
        taken = await take_over(path)
        assert taken is not None
        (inherited,) = taken.inherited.take("traffic")
        with inherited:
            assert inherited.getsockname() == old.listening.getsockname()
            assert (inherited.fileno() != old.listening.fileno(), os.get_inheritable(inherited.fileno())) == (
                True,
                False,
            )
            assert not old.left
            await taken.ready()
            await until(lambda: old.left)
            # The next one waits at the same place, before the one before has closed.
            following = HandOver(path, old.give, old.leave)
            following.open()
            await old.hand_over.close()
            assert path.exists()
            await following.close()
    assert not path.exists()


async def test_one_that_gives_up_before_it_is_ready_has_changed_nothing(tmp_path: Path) -> None:
    path = tmp_path / "8080.handover"
    async with before(path) as old:
        for _ in range(2):
            taken = await take_over(path)
            assert taken is not None
            taken.close()
        taken = await take_over(path)
        assert taken is not None
        assert (old.given, old.left) == (3, False)
        await taken.ready()
        await until(lambda: old.left)
        taken.close()


async def test_what_is_no_router_is_not_listened_to(tmp_path: Path) -> None:
    path = tmp_path / "8080.handover"
    async with before(path) as old:
        for words in (b"", b"\n", b'{"take_over": "yes"}\n', b'{"take_over": 2, "warmroute": "9"}\n', b"x" * 5000):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(str(path))
                stranger.sendall(words)
                stranger.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    assert await asyncio.to_thread(stranger.recv, 100) == b""
        assert (old.given, old.left) == (0, False)
        taken = await take_over(path)
        assert taken is not None
        taken.close()


async def test_another_user_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "8080.handover"
    monkeypatch.setattr(hand_over, "peer_user", lambda peer: 12345)
    async with before(path) as old:
        with pytest.raises(ConfigError, match="does not hand over"):
            await take_over(path)
        assert old.given == 0


async def test_where_nobody_waits_the_router_begins_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "8080.handover"
    assert await take_over(path) is None
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    assert await take_over(path) is None
    async with before(path):
        taken = await take_over(path)
        assert taken is not None
        taken.close()
    with pytest.raises(ConfigError, match="needs a state file"):
        await take_over(None)


async def test_a_place_that_is_none_costs_only_the_hand_over(tmp_path: Path) -> None:
    async with before(tmp_path / ("x" * 120)) as old:
        assert not old.left


def test_routers_of_one_state_file_meet(tmp_path: Path) -> None:
    assert hand_over_path(tmp_path / "8080.index") == tmp_path / "8080.handover"
    assert hand_over_path(None) is None


def test_systemds_variables_count_for_this_process_alone() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "PATH": "/bin"}
    assert not from_systemd(environ, 2)
    assert environ == {"PATH": "/bin"}
    with pytest.raises(ConfigError, match="must be a number"):
        from_systemd({"LISTEN_PID": "2", "LISTEN_FDS": "two"}, 2)


def test_a_descriptor_that_takes_no_connections_is_refused_and_none_is_kept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as idle:
        good, bad = os.dup(listening.fileno()), os.dup(idle.fileno())
        with pytest.raises(ConfigError, match="handed over for admin is none"):
            from_descriptors([("traffic", good), ("admin", bad)])
        for descriptor in (good, bad):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)
