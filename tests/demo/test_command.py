"""`warmroute demo` as people run it, small: real engines, a real router, real requests."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

RUN_FIELDS = {
    "policy", "requests", "failed", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "cached_token_share", "requests_per_s",
    "load_max_over_mean",
}  # fmt: skip
_LIMIT_S = 50.0


@asynccontextmanager
async def demo(folder: Path, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", "demo", *flags,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | {"TMPDIR": str(folder)},
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def words_of(process: asyncio.subprocess.Process) -> tuple[str, str]:
    output, errors = await asyncio.wait_for(process.communicate(), _LIMIT_S)
    return output.decode(), errors.decode()


async def line_with(stream: asyncio.StreamReader | None, pattern: str) -> re.Match[str]:
    assert stream is not None
    async with asyncio.timeout(_LIMIT_S):
        async for line in stream:
            found = re.search(pattern, line.decode())
            if found:
                return found
    raise AssertionError(f"the output ended without {pattern}")


def descendants(pid: int) -> list[int]:
    """The children of a process, as Linux tells them."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def all_started(process: asyncio.subprocess.Process, count: int) -> list[int]:
    async with asyncio.timeout(_LIMIT_S):
        while len(started := descendants(process.pid)) < count:
            await asyncio.sleep(0.02)
    return started


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_json_is_one_object_with_the_promised_fields(tmp_path: Path) -> None:
    flags = ("--json", "--workers", "2", "--turns", "2", "--policy", "random", "--policy", "warmroute", "--seed", "3")
    async with demo(tmp_path, *flags) as process:
        output, errors = await words_of(process)
    assert process.returncode == 0, errors
    result: dict[str, Any] = json.loads(output)
    assert set(result) == {"workload", "runs", "ttft_p90_ratio_random_over_warmroute"}
    workload = result["workload"]
    assert workload["engine_capacity_tokens"] < workload["prefix_tokens"] < workload["fleet_capacity_tokens"]
    assert (workload["workers"], workload["seed"], workload["turns"]) == (2, 3, 2)
    assert [run["policy"] for run in result["runs"]] == ["random", "warmroute"]
    for run in result["runs"]:
        assert set(run) == RUN_FIELDS
        assert (run["requests"], run["failed"]) == (workload["requests"], 0)
        assert 0 < run["ttft_p50_s"] <= run["ttft_p90_s"] <= run["ttft_p99_s"]
        assert 1 <= run["load_max_over_mean"] <= 2
    blind, aware = result["runs"]
    assert aware["cached_token_share"] > blind["cached_token_share"]
    assert result["ttft_p90_ratio_random_over_warmroute"] == blind["ttft_p90_s"] / aware["ttft_p90_s"]
    assert files_in(tmp_path) == [], "logs are left behind"


async def test_keep_leaves_a_router_that_answers_until_it_is_interrupted(tmp_path: Path) -> None:
    flags = ("--keep", "--workers", "2", "--turns", "1", "--policy", "warmroute")
    async with demo(tmp_path, *flags) as process:
        url = (await line_with(process.stderr, r"stay at (http://\S+) until"))[1]
        body = (await line_with(process.stderr, r"^curl .* -d '(.*)'$"))[1]
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/chat/completions", data=body) as response,
        ):
            assert response.status == 200
            assert b"data: [DONE]" in await response.read()
        started = descendants(process.pid)
        assert len(started) == 3
        process.send_signal(signal.SIGINT)
        output, errors = await words_of(process)
    assert process.returncode == 0, errors
    assert "both random and warmroute" in output
    assert not any(map(is_running, started))


async def test_an_interrupted_run_ends_its_processes(tmp_path: Path) -> None:
    async with demo(tmp_path, "--workers", "2", "--policy", "random") as process:
        await line_with(process.stderr, "random: starting")
        started = await all_started(process, 3)
        process.send_signal(signal.SIGTERM)
        _, errors = await words_of(process)
    assert process.returncode == 130, errors
    assert not any(map(is_running, started))
    assert files_in(tmp_path) == []


async def test_a_dead_engine_is_told_and_makes_the_demo_fail(tmp_path: Path) -> None:
    async with demo(tmp_path, "--workers", "2", "--policy", "warmroute") as process:
        started = await all_started(process, 3)
        os.kill(started[1], signal.SIGKILL)
        _, errors = await words_of(process)
    assert process.returncode == 1
    log = re.search(
        r"warmroute demo: engine 2 ended with exit code -9; its last lines:\n(?s:.*)the whole log is (.*)", errors
    )
    assert log is not None, errors
    assert Path(log[1]) in files_in(Path(log[1]).parent)
    assert not any(map(is_running, started))


async def test_one_worker_is_refused(tmp_path: Path) -> None:
    async with demo(tmp_path, "--workers", "1") as process:
        output, errors = await words_of(process)
    assert (process.returncode, output) == (2, "")
    assert "workers must be at least 2" in errors
