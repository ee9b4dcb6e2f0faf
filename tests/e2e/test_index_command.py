"""`warmroute index` against running routers and the files that they write."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.processes import Running, engine, router, until, until_ready
from warmroute.gateway.state_file import LaneState, SavedState, read, write
from warmroute.kv_event.listener import Position

_PROMPT = list(range(20, 20 + 330))
_BLOCKS = 20
_SOUND = {"lanes": 1, "blocks": _BLOCKS, "problems": [], "undecided": None}


async def index(*words: str) -> tuple[int, str, str]:
    """`warmroute index ...`: exit code, output, errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", "index", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await asyncio.wait_for(process.communicate(), 50.0)
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace"), errors.decode()


async def index_json(*words: str) -> tuple[int, Any]:
    code, output, errors = await index(*words, "--json")
    assert output, errors
    return code, json.loads(output)


async def ask(url: str) -> int:
    """The cached tokens that the router predicts for the prompt, which is sent."""
    body = {"model": "warmroute-tiny", "prompt": _PROMPT, "max_tokens": 1}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        return int(response.headers["x-warmroute-cached-tokens"])


async def explained(url: str) -> int:
    """The cached tokens that the router would predict for the prompt, which is not sent."""
    body = {"model": "warmroute-tiny", "prompt": _PROMPT}
    async with aiohttp.ClientSession() as session, session.post(f"{url}/warmroute/explain", json=body) as response:
        return int((await response.json())["cached_tokens"])


@asynccontextmanager
async def warm_router(*flags: str) -> AsyncIterator[tuple[Running, Running]]:
    """An engine that holds 20 blocks, and a router that knows it."""
    async with engine(*flags) as only, router([only.url]) as gate:
        await until_ready(gate.admin_url, 1)
        await ask(gate.url)
        await until(gate.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["blocks"] == _BLOCKS)
        yield only, gate


@pytest.mark.timeout(120)
async def test_stats_and_check_of_a_running_router_and_of_its_dump(tmp_path: Path) -> None:
    file = str(tmp_path / "caches.index")
    async with warm_router() as (only, gate):
        code, told = await index_json("stats", "--url", gate.admin_url)
        (lane,) = told["lanes"]
        assert (code, lane["worker"], lane["block_sizes"]) == (0, only.url, {"16": _BLOCKS})
        assert (lane["blocks"]["confirmed"], lane["blocks"]["device"]) == (_BLOCKS, _BLOCKS)
        assert (lane["complete"], lane["rank"]) == (True, None)
        assert told["counts"]["blocks"] == _BLOCKS
        assert told["state_file"] is None, "no file without a port to name it by"
        code, output, _ = await index("stats", "--url", gate.admin_url)
        assert (code, only.url in output, "yes" in output) == (0, True, True)
        assert await index_json("check", "--url", gate.admin_url) == (0, _SOUND)
        code, output, errors = await index("dump", file, "--url", gate.admin_url)
        assert (code, errors) == (0, "")
        assert output.startswith(f"{file}: 1 lanes, ")
    code, told = await index_json("stats", "--file", file)
    (of_file,) = told["lanes"]
    same = ("worker", "endpoint", "rank", "blocks", "block_sizes", "complete", "last_seq")
    assert (code, {key: of_file[key] for key in same}) == (0, {key: lane[key] for key in same})
    assert await index_json("check", "--file", file) == (0, _SOUND)


@pytest.mark.timeout(120)
async def test_a_dump_gives_another_router_what_no_replay_brings(tmp_path: Path) -> None:
    file = tmp_path / "caches.index"
    # One batch is kept for replay: a router that comes later learns almost nothing from the engine.
    async with warm_router("--kv-buffer-steps", "1") as (only, first):
        body = {"model": "warmroute-tiny", "prompt": [7] * 40, "max_tokens": 1}
        async with aiohttp.ClientSession() as session, session.post(f"{first.url}/v1/completions", json=body):
            pass
        await until(first.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["blocks"] == _BLOCKS + 2)
        assert (await index("dump", str(file), "--url", first.admin_url))[0] == 0
        async with router([only.url]) as second:
            await until(second.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["kv_events"])
            await until(
                second.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["kv_events"][0]["connected"]
            )
            await until(
                second.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["kv_events"][0]["replays"]
            )
            assert await explained(second.admin_url) == 0
            code, told = await index_json("load", str(file), "--url", second.admin_url)
            assert (code, [(lane["taken"], lane["blocks"]) for lane in told["lanes"]]) == (0, [(True, _BLOCKS + 2)])
            await until_ready(second.admin_url, 1)
            assert await explained(second.admin_url) == await explained(first.admin_url) == _BLOCKS * 16
            assert (await index("check", "--url", second.admin_url))[0] == 0
            # What was loaded goes on with the stream.
            await ask(second.url)
            assert (await index_json("stats", "--url", second.admin_url))[1]["lanes"][0]["complete"] is True


@pytest.mark.timeout(120)
async def test_lanes_that_are_not_taken_are_told_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "caches.index"
    async with warm_router() as (_, gate):
        assert (await index("dump", str(file), "--url", gate.admin_url))[0] == 0
        state = read(file)
        assert state is not None
        (lane,) = state.lanes
        lanes = (
            replace(lane, worker="http://127.0.0.1:9"),
            replace(lane, endpoint="tcp://127.0.0.1:9"),
            replace(lane, position=None),
            replace(lane, blob=b"rubbish"),
        )
        write(file, SavedState(state.saved_at, state.router, lanes))
        code, told = await index_json("load", str(file), "--url", gate.admin_url)
        assert code == 1
        assert [told_lane["taken"] for told_lane in told["lanes"]] == [False] * 4
        for told_lane, reason in zip(
            told["lanes"], ("no such worker", "no KV events at", "no position", "cannot be read"), strict=True
        ):
            assert reason in told_lane["detail"]
        assert await explained(gate.admin_url) == _BLOCKS * 16, "what was known is not lost"


@pytest.mark.timeout(120)
async def test_a_position_of_another_process_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "caches.index"
    async with warm_router() as (_, gate):
        assert (await index("dump", str(file), "--url", gate.admin_url))[0] == 0
        state = read(file)
        assert state is not None
        (lane,) = state.lanes
        assert lane.position is not None
        foreign = replace(lane, position=Position(lane.position.seq, lane.position.mark ^ 1))
        write(file, SavedState(state.saved_at, state.router, (foreign,)))
        assert (await index("load", str(file), "--url", gate.admin_url))[0] == 0
        # One replay to verify the position, one from the beginning.
        await until(
            gate.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["kv_events"][0]["replays"] == 2
        )
        await until_ready(gate.admin_url, 1)
        assert await explained(gate.admin_url) == _BLOCKS * 16, "learned anew by replay"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("body", [b"", b"dear diary", b"warmidx\n\x01\x00\x00\x00" + bytes(60)])
async def test_a_body_that_is_no_state_is_refused(body: bytes) -> None:
    async with router([]) as gate, aiohttp.ClientSession() as session:
        async with session.post(f"{gate.admin_url}/warmroute/index/load", data=body) as response:
            assert response.status == 400
            assert (await response.json())["error"]["message"].startswith("the body cannot be used: ")
        async with session.get(f"{gate.admin_url}/warmroute/index/load") as response:
            assert (response.status, response.headers["allow"]) == (405, "POST")


@pytest.mark.timeout(60)
async def test_a_damaged_lane_of_a_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "caches.index"
    lane = LaneState("http://a:1", "tcp://a:1", None, None, 16, 1.0, b"rubbish")
    write(file, SavedState(1.0, "0.1.0", (lane, lane)))
    code, told = await index_json("check", "--file", str(file))
    assert (code, told["lanes"], told["blocks"]) == (1, 2, 0)
    assert [problem.split(":", 3)[3].split(":")[0].strip() for problem in told["problems"]] == [
        "its blocks cannot be read",
        "it is in the file twice",
        "its blocks cannot be read",
    ]
    code, _, errors = await index("stats", "--file", str(file))
    assert (code, "its blocks cannot be read" in errors) == (1, True)
