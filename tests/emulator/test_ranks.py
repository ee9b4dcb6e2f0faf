"""Several data-parallel ranks behind one server: caches, events and metrics of their own."""

import asyncio
import random
import socket
import struct
from typing import Any

import aiohttp
import pytest
import zmq
import zmq.asyncio

from emulator.serving import Client, serving
from emulator.test_process import engine_process, ready
from kv_event.twin.decode import decode_batch
from warmroute.emulator import EmulatorOptions
from warmroute.engine_model import EngineOptions
from warmroute.errors import ConfigError
from warmroute.kv_event import AllBlocksCleared, BlockStored, EventBatch

_PROMPT = [7] * 40


async def ask(client: Client, rank: Any = None, prompt: list[int] | None = None) -> tuple[int, Any]:
    """(status, cached tokens or the error) of a request that names a rank."""
    headers = {} if rank is None else {"X-data-parallel-rank": str(rank)}
    body = {"prompt": prompt or _PROMPT, "max_tokens": 1}
    async with client.session.post(client.url + "/v1/completions", json=body, headers=headers) as response:
        answer = await response.json()
    if response.status == 200:
        return 200, answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return response.status, answer["error"]


async def published(source: dict[str, Any]) -> list[EventBatch]:
    """All batches of a rank, from its replay."""
    context = zmq.asyncio.Context()
    batches: list[EventBatch] = []
    with context, context.socket(zmq.DEALER) as replay:
        replay.setsockopt(zmq.LINGER, 0)
        replay.connect(source["replay_endpoint"])
        await replay.send_multipart([b"", struct.pack(">Q", 0)])
        async with asyncio.timeout(10):
            while (frames := await replay.recv_multipart())[-1]:
                assert int.from_bytes(frames[-2], "big") == len(batches)
                batches.append(decode_batch(frames[-1]))
    return batches


async def test_each_rank_has_a_cache_of_its_own() -> None:
    async with serving(data_parallel_size=2) as client:
        assert await ask(client, 1) == (200, 0)
        assert await ask(client, 1) == (200, 32)
        assert await ask(client, 0) == (200, 0)
        assert await ask(client, 0) == (200, 32)


async def test_without_a_usable_header_the_least_loaded_rank_answers() -> None:
    async with serving(data_parallel_size=2) as client:
        assert await ask(client) == (200, 0)
        assert await ask(client, "first") == (200, 32)
        assert await ask(client, " 0 ") == (200, 32)
        slow = {"prompt": [9] * 20, "max_tokens": 3000, "ignore_eos": True, "stream": True}
        async with client.session.post(client.url + "/v1/completions", json=slow) as stream:
            await stream.content.readany()
            assert await ask(client) == (200, 0), "rank 0 is busy, and rank 1 has not seen the prompt"


@pytest.mark.parametrize("rank", [2, -1, 10**30])
async def test_a_rank_that_is_not_there_is_refused(rank: int) -> None:
    async with serving(data_parallel_size=2) as client:
        status, error = await ask(client, rank)
    assert status == 400
    assert f"data_parallel_rank {rank} is out of range [0, 2)" in error["message"]


async def test_each_rank_publishes_for_itself() -> None:
    async with serving(data_parallel_size=3) as client:
        await ask(client, 1)
        await ask(client, 2)
        await ask(client, 2, [8] * 40)
        sources = await client.get("/kv_event_sources")
        told = {rank: await published(source) for rank, source in sources.items()}
    assert sources == client.running.kv_event_sources
    assert len({source[key] for source in sources.values() for key in ("endpoint", "replay_endpoint")}) == 6
    assert {rank: len(batches) for rank, batches in told.items()} == {"0": 0, "1": 1, "2": 2}
    assert all(batch.rank == int(rank) for rank, batches in told.items() for batch in batches)
    first, second = (told[rank][0].events[0] for rank in ("1", "2"))
    assert isinstance(first, BlockStored)
    assert isinstance(second, BlockStored)
    assert first.token_ids == second.token_ids
    assert first.block_hashes != second.block_hashes


async def test_metrics_are_told_by_rank() -> None:
    async with serving(EngineOptions(num_blocks=100), data_parallel_size=2) as client:
        for rank, times in ((0, 1), (1, 3)):
            for _ in range(times):
                await ask(client, rank)
        lines = (await client.text("/metrics")).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    for engine, times in (("0", 1), ("1", 3)):
        labels = f'{{engine="{engine}",model_name="warmroute-tiny"}}'
        assert float(values["vllm:prompt_tokens_total" + labels]) == 40 * times
        assert float(values["vllm:prefix_cache_hits_total" + labels]) == 32 * (times - 1)
        assert float(values["vllm:request_success_total" + labels]) == times
        assert float(values["vllm:num_requests_running" + labels]) == 0
    # vLLM adds the ranks up and says the sum for each.
    configs = [line for line in lines if line.startswith("vllm:cache_config_info{")]
    assert len(configs) == 2
    assert all('num_gpu_blocks="200"' in line for line in configs)


async def test_a_reset_clears_every_rank_and_one_alone_can_be_cleared() -> None:
    async with serving(data_parallel_size=2) as client:
        for rank in (0, 1):
            await ask(client, rank)
        assert client.running.engines[1].reset_prefix_cache()
        assert [await ask(client, rank) for rank in (0, 1)] == [(200, 32), (200, 0)]
        batches = await published(client.running.kv_event_sources["1"])
        assert batches[-1].events[0] == AllBlocksCleared()
        assert await client.post("/reset_prefix_cache", {}) == {"success": True}
        assert [await ask(client, rank) for rank in (0, 1)] == [(200, 0), (200, 0)]


async def test_a_rank_that_restarts_begins_empty_and_counts_from_zero() -> None:
    async with serving(data_parallel_size=2) as client:
        for rank in (0, 1):
            await ask(client, rank)
        before = await published(client.running.kv_event_sources["1"])
        client.running.restart_rank(1)
        assert await published(client.running.kv_event_sources["1"]) == []
        assert [await ask(client, rank) for rank in (0, 1)] == [(200, 32), (200, 0)]
        after = await published(client.running.kv_event_sources["1"])
    assert [len(batches) for batches in (before, after)] == [1, 1]
    assert before[0].events != after[0].events, "another process names its blocks otherwise"


def two_ports_in_a_row() -> int:
    """The first of two free ports, from below those that any other socket is given."""
    for base in random.sample(range(20_000, 32_000, 2), 50):
        try:
            with socket.create_server(("127.0.0.1", base)), socket.create_server(("127.0.0.1", base + 1)):
                return base
        except OSError:
            continue
    raise AssertionError("no two ports in a row are free")


def test_given_ports_are_those_of_rank_zero() -> None:
    base = two_ports_in_a_row()
    flags = ("--port", "0", "--json", "--data-parallel-size", "2", "--kv-events-port", str(base))
    with engine_process(*flags) as process:
        told = ready(process)
        assert told["kv_events_endpoint"] == f"tcp://127.0.0.1:{base}"
        with pytest.raises(OSError, match="in use"), socket.create_server(("127.0.0.1", base + 1)):
            pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_parallel_size": 0}, "data_parallel_size must be at least 1"),
        ({"data_parallel_size": 2, "kv_replay_port": 65_535}, "kv_replay_port 65535 leaves no ports for 2 ranks"),
    ],
)
def test_what_cannot_be_is_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EmulatorOptions(**changes)


async def test_a_batch_of_prompts_is_spread() -> None:
    async with serving(data_parallel_size=2) as client, aiohttp.ClientSession() as session:
        body = {"prompt": [[5] * 40, [6] * 40], "max_tokens": 1}
        async with session.post(client.url + "/v1/completions", json=body) as response:
            assert response.status == 200
        held = [sum(engine.model.cached_hashes().values()) for engine in client.running.engines]
    assert held == [2, 2]
