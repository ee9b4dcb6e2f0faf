"""The keeper of the state file: what it loads, when it saves, and what it says when it cannot."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.test_state_file import LANES, STATE
from warmroute.errors import ConfigError
from warmroute.gateway.options import ServeConfig, state_path
from warmroute.gateway.state_file import MAGIC, VERSION, LaneState, leftovers, read, write
from warmroute.gateway.state_keeper import StateKeeper

_WORKERS = {"http://a:1", "http://b:1"}


class Listeners:
    """Stands for the fleet: hands out lanes, and counts how often it was asked."""

    def __init__(self, lanes: Sequence[LaneState] = LANES) -> None:
        self.lanes = lanes
        self.asked = 0

    async def take(self) -> Sequence[LaneState]:
        self.asked += 1
        await asyncio.sleep(0)
        return self.lanes


@asynccontextmanager
async def keeping(path: Path | None, listeners: Listeners, interval_s: float = 60.0) -> AsyncIterator[StateKeeper]:
    keeper = StateKeeper(path, interval_s)
    keeper.start(listeners.take)
    try:
        yield keeper
    finally:
        await keeper.close()


async def loaded(path: Path, workers: set[str] = _WORKERS) -> tuple[LaneState, ...]:
    keeper = StateKeeper(path, 60.0)
    lanes = await keeper.load(workers)
    await keeper.close()
    return lanes


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_what_one_router_saves_at_its_end_the_next_one_loads(tmp_path: Path) -> None:
    path = tmp_path / "8080.index"
    async with keeping(path, Listeners()):
        assert not path.exists()
    assert await loaded(path) == LANES


async def test_it_saves_at_intervals(tmp_path: Path) -> None:
    path, listeners = tmp_path / "8080.index", Listeners()
    async with keeping(path, listeners, 0.01) as keeper:
        while listeners.asked < 3:
            await asyncio.sleep(0.01)
        listeners.lanes = LANES[:1]
        asked = listeners.asked
        while listeners.asked < asked + 2:
            await asyncio.sleep(0.01)
        state = read(path)
        assert state is not None
        assert state.lanes == LANES[:1]
        report = keeper.report()
        assert report is not None
        assert report["bytes"] == path.stat().st_size
        assert 0 <= report["saved_s_ago"] < 30
        assert report["problem"] is None


async def test_only_workers_that_are_configured_are_loaded_and_the_others_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "8080.index"
    write(path, STATE)
    with caplog.at_level(logging.INFO):
        assert await loaded(path, {"http://a:1", "http://new:1"}) == LANES[:1]
    assert caplog.messages[-1] == "left out of it, for they are not configured now: http://b:1"


async def test_without_a_file_it_starts_with_nothing_and_warns_of_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await loaded(tmp_path / "none") == ()
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"dear diary", "it is no state file of warmroute"),
        (MAGIC + (VERSION + 1).to_bytes(4, "little") + bytes(100), "a newer router wrote it"),
        (MAGIC + VERSION.to_bytes(4, "little") + bytes(100), "its checksum is wrong"),
    ],
)
async def test_an_unusable_file_is_one_line_and_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    path = tmp_path / "8080.index"
    path.write_bytes(data)
    assert await loaded(path) == ()
    (line,) = warnings(caplog)
    assert line.startswith(f"state file {path} is not used: {reason}")
    assert "the router starts empty, and the file is kept as 8080.index.refused" in line
    assert (tmp_path / "8080.index.refused").read_bytes() == data
    async with keeping(path, Listeners()):
        pass
    assert await loaded(path) == LANES


async def test_a_folder_in_the_place_of_the_file_is_told_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").mkdir()
    assert await loaded(tmp_path) == ()
    async with keeping(tmp_path, Listeners()) as keeper:
        await keeper.save()
        await keeper.save()
        report = keeper.report()
        assert report is not None
        assert report["problem"].startswith("it cannot be written")
    assert [line.split(": ", 1)[1].split(";")[0] for line in warnings(caplog)] == [
        "it is no regular file",
        "it cannot be written: " + report["problem"].split(": ")[1],
    ]
    assert (tmp_path / "kept").is_dir()


async def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "8080.index"
    write(path, STATE)
    part = tmp_path / ".8080.index.abc.part"
    part.write_bytes(b"half of")
    assert list(leftovers(path)) == [part]
    assert await loaded(path) == LANES
    assert not part.exists()


async def test_a_failing_listener_ends_neither_the_saving_nor_the_shutdown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Listeners):
        async def take(self) -> Sequence[LaneState]:
            await super().take()
            if self.asked < 3:
                raise ValueError("no lanes")
            return self.lanes

    listeners = Failing()
    async with keeping(tmp_path / "8080.index", listeners, 0.01):
        while listeners.asked < 3:
            await asyncio.sleep(0.01)
    assert await loaded(tmp_path / "8080.index") == LANES
    assert "is not written" in warnings(caplog)[0]


async def test_a_listener_that_hangs_does_not_hold_the_shutdown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(Listeners):
        async def take(self) -> Sequence[LaneState]:
            await asyncio.Event().wait()
            return ()

    monkeypatch.setattr("warmroute.gateway.state_keeper._TAKE_LIMIT_S", 0.05)
    async with asyncio.timeout(10.0), keeping(tmp_path / "8080.index", Hanging()):
        pass
    assert "did not hand out their lanes within 0.05 s" in warnings(caplog)[0]


async def test_the_loop_is_not_held_while_a_large_file_is_written(tmp_path: Path) -> None:
    lane = LaneState("http://a:1", "tcp://a:1", None, None, 16, 1.0, bytes(200 << 20))
    longest, running = 0.0, True

    async def tick() -> None:
        nonlocal longest
        loop = asyncio.get_running_loop()
        last = loop.time()
        while running:
            await asyncio.sleep(0.001)
            longest, last = max(longest, loop.time() - last), loop.time()

    async with keeping(tmp_path / "8080.index", Listeners([lane])) as keeper:
        ticking = asyncio.create_task(tick())
        began_at = asyncio.get_running_loop().time()
        await keeper.save()
        took = asyncio.get_running_loop().time() - began_at
        running = False
        await ticking
    # Hashing or writing 200 MiB under the lock of the interpreter would hold it for most of that time.
    assert longest < max(0.1, took / 2), (longest, took)


async def test_no_path_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    listeners = Listeners()
    async with keeping(None, listeners, 0.001) as keeper:
        assert await keeper.load(_WORKERS) == ()
        await keeper.save()
        await asyncio.sleep(0.05)
        assert keeper.report() is None
    assert listeners.asked == 0
    assert files_in(tmp_path) == []


@pytest.mark.parametrize(
    ("config", "environ", "path"),
    [
        (ServeConfig(), {"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/warmroute/8080.index"),
        (ServeConfig(port=9000), {"HOME": "/h"}, "/h/.local/state/warmroute/9000.index"),
        (ServeConfig(), {"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/warmroute/8080.index"),
        (ServeConfig(), {}, None),
        (ServeConfig(port=0), {"HOME": "/h"}, None),
        (ServeConfig(state_file=""), {"HOME": "/h"}, None),
        (ServeConfig(state_file="x", port=0), {}, "x"),
    ],
)
def test_where_the_file_is(config: ServeConfig, environ: dict[str, str], path: str | None) -> None:
    assert state_path(config, environ) == (None if path is None else Path(path))


def test_a_home_that_nobody_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="state_file ~nobody-of-that-name/x is nowhere"):
        state_path(ServeConfig(state_file="~nobody-of-that-name/x"), {})


def test_the_interval_is_checked() -> None:
    with pytest.raises(ConfigError, match="state_interval_s must lie between"):
        ServeConfig(state_interval_s=0)
