"""A router that is killed or stopped and started again knows the caches as before, and believes its file no more than
the engines' events allow."""

import asyncio
import itertools
import random
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from e2e.processes import Running, engine, router, until, until_ready
from warmroute.block import Tier
from warmroute.gateway.state_file import LaneState, SavedState, read, write
from warmroute.kv_event.listener import Position
from warmroute.prefix_index import PrefixIndex

_MODEL = "warmroute-tiny"
# Small caches, so that blocks are evicted all the time; a replay that brings only the last of the events.
_ENGINE = ("--num-blocks", "600", "--kv-buffer-steps", "250")
_NOT_BY_ITSELF = "1000"


def killed_or_stopped(path: Path, interval_s: str = _NOT_BY_ITSELF) -> tuple[str, ...]:
    return ("--state-file", str(path), "--state-interval-s", interval_s)


@asynccontextmanager
async def two_engines(*flags: str) -> AsyncIterator[list[str]]:
    async with engine(*_ENGINE, *flags) as first, engine(*_ENGINE, *flags) as second:
        yield [first.url, second.url]


async def ask(session: aiohttp.ClientSession, url: str, prompt: Sequence[int]) -> tuple[int, int]:
    """The cached tokens that were predicted, and those that the engine reports."""
    body = {"model": _MODEL, "prompt": list(prompt), "max_tokens": 4}
    async with session.post(f"{url}/v1/completions", json=body) as response:
        answer = await response.json()
        assert response.status == 200, answer
    return (
        int(response.headers["x-warmroute-cached-tokens"]),
        answer["usage"]["prompt_tokens_details"]["cached_tokens"],
    )


def prompts(rng: random.Random) -> list[list[int]]:
    """Six conversations of growing prompts, one turn of each after the other; a third of each is common to all."""
    common = [rng.randrange(20, 4000) for _ in range(320)]
    tails = [[rng.randrange(20, 4000) for _ in range(640)] for _ in range(6)]
    return [common + tail[: 80 * turn] for turn in range(1, 9) for tail in tails]


async def load(session: aiohttp.ClientSession, url: str, asked: Sequence[Sequence[int]]) -> None:
    """Requests without end, as long as somebody answers: each conversation grows, and begins again."""
    while True:
        for prompt in asked:
            await ask(session, url, prompt)


async def known(url: str) -> dict[str, Any]:
    """What the router says of each worker's events and blocks."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/warmroute/workers") as response:
        return {worker["url"]: worker for worker in (await response.json())["workers"]}


async def kill_under_load(gate: Running, path: Path) -> None:
    """End the router as a crash does, while events come in and after at least two writings of its file."""
    async with aiohttp.ClientSession() as session:
        tasks = [asyncio.create_task(load(session, gate.url, prompts(random.Random(seed)))) for seed in range(6)]
        # More batches than a replay could bring back.
        await until(
            gate.admin_url,
            "/warmroute/workers",
            lambda page: all((e["last_seq"] or 0) > 400 for w in page["workers"] for e in w["kv_events"]),
            limit_s=60.0,
        )
        await until(gate.admin_url, "/warmroute/index", lambda page: page["state_file"]["bytes"], limit_s=10.0)
        gate.kill()
        await gate.process.wait()
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, aiohttp.ClientError | asyncio.CancelledError) for end in ends), ends


async def exactness(url: str, seconds: float, seeds: Sequence[int]) -> tuple[int, int]:
    """Requests of the load with these seeds, for so long: how many there were, how many predicted to the token."""
    results = []
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    async with aiohttp.ClientSession() as session:
        for prompt in itertools.chain.from_iterable(prompts(random.Random(seed)) for seed in itertools.cycle(seeds)):
            results.append(await ask(session, url, prompt))
            if loop.time() > ends_at:
                break
    return len(results), sum(predicted == reported for predicted, reported in results)


@pytest.mark.timeout(180)
async def test_killed_under_load_it_routes_at_once_and_predicts_exactly(tmp_path: Path) -> None:
    path = tmp_path / "router.index"
    async with two_engines() as engines:
        async with router(engines, *killed_or_stopped(path, "0.2")) as gate:
            await until_ready(gate.admin_url, 2)
            await kill_under_load(gate, path)
        loop = asyncio.get_running_loop()
        async with router(engines, *killed_or_stopped(path, "0.2")) as gate:
            listens_at = loop.time()
            async with aiohttp.ClientSession() as session:
                while True:
                    async with session.post(
                        f"{gate.url}/v1/completions", json={"model": _MODEL, "prompt": [1, 2, 3], "max_tokens": 1}
                    ) as response:
                        if response.status == 200:
                            break
                    await asyncio.sleep(0.02)
            assert loop.time() - listens_at < 2.0
            asked, exact = await exactness(gate.url, 8.0, range(6))
            assert asked >= 100
            assert exact >= 0.99 * asked, f"{exact} of {asked}"
            for worker in (await known(gate.admin_url)).values():
                (stream,) = worker["kv_events"]
                # From the file and a short replay: by a replay alone the view could not be complete.
                assert (stream["complete"], stream["restarts"]) == (True, 0)
                assert stream["batches"] < stream["last_seq"]


@pytest.mark.timeout(120)
async def test_a_stop_keeps_what_was_known(tmp_path: Path) -> None:
    path = tmp_path / "router.index"
    async with two_engines() as engines, aiohttp.ClientSession() as session:
        async with router(engines, *killed_or_stopped(path)) as gate:
            await until_ready(gate.admin_url, 2)
            for prompt in prompts(random.Random(1)):
                await ask(session, gate.url, prompt)
            assert not path.exists()
            before = {url: worker["blocks"] for url, worker in (await known(gate.admin_url)).items()}
        state = read(path)
        assert state is not None
        assert {lane.worker for lane in state.lanes} == set(engines)
        async with router(engines, *killed_or_stopped(path)) as gate:
            await until_ready(gate.admin_url, 2)
            after = {url: worker["blocks"] for url, worker in (await known(gate.admin_url)).items()}
            assert after == before
            asked, exact = await exactness(gate.url, 2.0, [1])
            assert (asked > 10, exact) == (True, asked)


@pytest.mark.timeout(120)
async def test_an_engine_that_restarted_meanwhile_is_not_credited_with_the_old_blocks(tmp_path: Path) -> None:
    path = tmp_path / "router.index"
    ports = ("--kv-events-port", "0", "--kv-replay-port", "0")
    async with aiohttp.ClientSession() as session:
        prompt = prompts(random.Random(2))[-1]
        async with engine(*ports) as first:
            async with router([first.url], *killed_or_stopped(path)) as gate:
                await until_ready(gate.admin_url, 1)
                await ask(session, gate.url, prompt)
                predicted, reported = await ask(session, gate.url, prompt)
                assert predicted == reported > 900
            async with session.get(f"{first.url}/kv_event_sources") as response:
                told = await response.json()
            ports_of_first = [int(url.rsplit(":", 1)[1]) for url in _endpoints(told)]
            http_port = int(first.url.rsplit(":", 1)[1])
        same = ("--kv-events-port", str(ports_of_first[0]), "--kv-replay-port", str(ports_of_first[1]))
        async with engine(*same, port=http_port) as second:
            assert second.url == first.url
            # As many batches as before and more, so that numbers alone tell nothing.
            for other in prompts(random.Random(3))[:6]:
                body = {"model": _MODEL, "prompt": other, "max_tokens": 2}
                async with session.post(f"{second.url}/v1/completions", json=body) as response:
                    assert response.status == 200
            async with router([second.url], *killed_or_stopped(path)) as gate:
                await until_ready(gate.admin_url, 1)
                assert await ask(session, gate.url, prompt) == (0, 0)


def _endpoints(told: Any) -> list[str]:
    """The events' and the replay's address of rank 0, wherever they stand in the answer."""
    source = told["0"] if "0" in told else next(iter(told.values()))["0"]
    return [source["endpoint"], source["replay_endpoint"]]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("damage", ["cut off", "flipped", "foreign"])
async def test_a_damaged_file_costs_one_line_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path = tmp_path / "router.index"
    async with engine() as only, aiohttp.ClientSession() as session:
        prompt = prompts(random.Random(4))[-1]
        async with router([only.url], *killed_or_stopped(path)) as gate:
            await until_ready(gate.admin_url, 1)
            await ask(session, gate.url, prompt)
        data = path.read_bytes()
        flipped = data[:500] + bytes([data[500] ^ 0xFF]) + data[501:]
        path.write_bytes({"cut off": data[:-100], "flipped": flipped, "foreign": b"dear diary"}[damage])
        capsys.readouterr()
        async with router([only.url], *killed_or_stopped(path)) as gate:
            await until_ready(gate.admin_url, 1)
            predicted, reported = await ask(session, gate.url, prompt)
            assert predicted == reported > 900, "learned again by replay"
        told = [line for line in capsys.readouterr().err.splitlines() if "state file" in line and "WARNING" in line]
        assert len(told) == 1, told
        assert "is not used: " in told[0]
        assert "the router starts empty" in told[0]
        state = read(path)
        assert state is not None
        assert [lane.worker for lane in state.lanes] == [only.url]


@pytest.mark.timeout(60)
async def test_a_file_that_cannot_be_written_is_told_once_and_the_router_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "router.index"
    async with engine() as only, aiohttp.ClientSession() as session:
        async with router([only.url], *killed_or_stopped(path, "0.1")) as gate:
            await until_ready(gate.admin_url, 1)
            page = await until(gate.admin_url, "/warmroute/index", lambda page: page["state_file"]["problem"])
            assert "cannot be written" in page["state_file"]["problem"]
            await asyncio.sleep(0.5)
            await ask(session, gate.url, [1, 2, 3])
        told = [line for line in capsys.readouterr().err.splitlines() if "state file" in line and "WARNING" in line]
        assert len(told) == 1, told


def lane_of_many_blocks(worker: str, endpoint: str, blocks: int) -> LaneState:
    """A lane that an engine could have filled, and a position that its publisher will not know."""
    index = PrefixIndex()
    index.add_worker(0, 0)
    chain, tokens = 1000, array("I", range(16_000))
    for first in range(0, blocks, chain):
        tokens[0] = first
        index.store(0, Tier.DEVICE, None, array("Q", range(first, first + chain)), tokens, 16)
    assert index.blocks(0) == blocks
    return LaneState(worker, endpoint, None, Position(10**9, 1), 16, time.time(), index.dump(0))


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_with_a_million_blocks_to_restore_it_is_routable_at_once(tmp_path: Path) -> None:
    path = tmp_path / "router.index"
    async with engine() as only, aiohttp.ClientSession() as session:
        async with session.get(f"{only.url}/kv_event_sources") as response:
            endpoint = _endpoints(await response.json())[0]
        lane = lane_of_many_blocks(only.url, endpoint, 1_000_000)
        write(path, SavedState(time.time(), "0.1.0", (lane,)))
        began_at = time.monotonic()
        async with router([only.url], *killed_or_stopped(path)) as gate:
            await until(gate.admin_url, "/warmroute/workers", lambda page: page["workers"][0]["status"] == "ready")
            await ask(session, gate.url, [1, 2, 3])
            assert time.monotonic() - began_at < 2.0
            for _ in range(50):
                asked_at = time.monotonic()
                await ask(session, gate.url, [1, 2, 3])
                assert time.monotonic() - asked_at < 0.5, "restoring holds nobody up"
