"""Child processes end with the block, on every way out, and their deaths are told with their last words."""

import asyncio
import os
import re
from collections.abc import Awaitable
from pathlib import Path

import pytest

from warmroute.demo.child import Child, ChildFailed, children, while_alive

ENGINE = ("engine", ["engine", "--json", "--port", "0"])
BAD_ENGINE = ("engine 2", ["engine", "--json", "--model", "/no/such/folder"])
READY = re.compile("http://")
START_S = 30.0


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_child_is_gone_after_the_block(tmp_path: Path) -> None:
    async with children([ENGINE], tmp_path) as (engine,):
        await engine.ready(READY, START_S)
        assert is_running(engine.pid)
    assert not is_running(engine.pid)


async def test_children_are_gone_after_an_error_and_after_a_cancellation(tmp_path: Path) -> None:
    pids: list[int] = []
    all_started = asyncio.Event()

    async def live(ends: Awaitable[None]) -> None:
        async with children([ENGINE, ENGINE], tmp_path) as started:
            pids.extend(child.pid for child in started)
            if len(pids) == 4:
                all_started.set()
            await ends

    async def fails() -> None:
        raise RuntimeError("something else broke")

    with pytest.raises(RuntimeError):
        await live(fails())
    forever = asyncio.create_task(live(asyncio.sleep(3600)))
    await asyncio.wait_for(all_started.wait(), START_S)
    forever.cancel()
    with pytest.raises(asyncio.CancelledError):
        await forever
    assert not any(map(is_running, pids))


async def test_a_child_that_never_starts_is_told_with_its_last_lines_and_its_log(tmp_path: Path) -> None:
    async with children([BAD_ENGINE], tmp_path) as (engine,):
        with pytest.raises(ChildFailed, match="engine 2 ended with exit code 2") as failure:
            await engine.ready(READY, START_S)
    assert "/no/such/folder" in str(failure.value)
    assert str(tmp_path / "engine-2.log") in str(failure.value)


async def test_a_child_that_does_not_get_ready_in_time_is_told(tmp_path: Path) -> None:
    async with children([ENGINE], tmp_path) as (engine,):
        with pytest.raises(ChildFailed, match=r"was not ready after 0\.2 s"):
            await engine.ready(re.compile("never written"), 0.2)


async def test_a_death_in_the_middle_ends_the_work(tmp_path: Path) -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()

    async with children([ENGINE, ENGINE], tmp_path) as (first, second):
        await asyncio.gather(first.ready(READY, START_S), second.ready(READY, START_S))
        killing = asyncio.get_running_loop().call_later(0.1, second.process.kill)
        with pytest.raises(ChildFailed, match="exit code -9"):
            await while_alive([first, second], work())
        killing.cancel()
    assert cancelled.is_set()


async def test_work_that_ends_first_gives_its_result(tmp_path: Path) -> None:
    async with children([ENGINE], tmp_path) as started:
        assert await while_alive(started, asyncio.sleep(0, "done")) == "done"


async def test_a_child_that_ignores_the_signal_is_ended_by_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmroute.demo.child._STOP_S", 0.2)
    log = tmp_path / "deaf.log"
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec("sh", "-c", script, stdout=output)
    child = Child("deaf", process, log)
    await child.ready(re.compile("ready"), START_S)
    await child.stop()
    assert process.returncode == -9
    await child.stop()  # once more is nothing


async def test_options_of_the_environment_do_not_reach_the_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARMROUTE_POLICY", "no-such-policy")
    words = ["serve", "--port", "0", "--tokenizer", "warmroute-tiny"]
    async with children([("router", words)], tmp_path) as (router,):
        await router.ready(re.compile("listens on http"), START_S)
