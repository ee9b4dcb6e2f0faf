"""KV events as TensorRT-LLM hands them out: whoever asks is told the cache, once."""

import json
from collections import Counter
from typing import Any

import pytest

from emulator.serving import Client, serving
from emulator.test_process import engine_process, ready
from warmroute.block import Namespace, hash_blocks
from warmroute.engine_model import EngineOptions
from warmroute.kv_event import EventBatch, apply_batch
from warmroute.kv_event.tensorrt_llm import PolledEventReader, split
from warmroute.prefix_index import PrefixIndex

_SIZE = 16


async def drained(client: Client) -> list[dict[str, Any]]:
    return list(await client.post("/kv_cache_events", None))


async def load(client: Client, requests: int) -> None:
    """Prompts that share beginnings and together are larger than a cache of 40 blocks."""
    for number in range(requests):
        prompt = [100 + number % 3] * 48 + [200 + number] * (16 * (number % 7) + 5)
        await client.post("/v1/completions", {"prompt": prompt, "max_tokens": 20, "ignore_eos": True})


def held(events: list[dict[str, Any]]) -> set[int]:
    """Hashes of the blocks that are there after `events`; each is stored once before it is removed."""
    blocks: Counter[int] = Counter()
    for event in events:
        match event["data"]:
            case {"type": "stored", "blocks": stored}:
                blocks.update(block["block_hash"] for block in stored)
            case {"type": "removed", "block_hashes": hashes}:
                blocks.subtract(hashes)
    assert set(blocks.values()) <= {0, 1}
    return {block_hash for block_hash, count in blocks.items() if count}


async def test_events_tell_the_cache() -> None:
    async with serving(EngineOptions(num_blocks=40), kv_events="trtllm") as client:
        assert await client.get("/kv_event_sources") == {}
        await load(client, 30)
        events = await drained(client)
        cached = client.running.engine.model.cached_hashes()
        assert await drained(client) == []
    assert [event["event_id"] for event in events] == list(range(len(events)))
    assert events[0]["data"] == {"type": "created", "num_blocks_per_cache_level": [40, 0]}
    assert {event["window_size"] for event in events} == {640}
    assert not any("attention_dp_rank" in event for event in events)
    kinds = Counter(event["data"]["type"] for event in events)
    assert kinds["created"] == 1
    assert kinds["removed"] > 10
    sizes = Counter(
        len(block["tokens"]) for e in events if e["data"]["type"] == "stored" for block in e["data"]["blocks"]
    )
    assert max(sizes) == _SIZE
    assert sum(count for size, count in sizes.items() if size < _SIZE) > 10, "last blocks that are not full"
    assert held(events) == set(cached)


async def test_the_index_of_a_router_agrees_with_the_engine() -> None:
    index, reader = PrefixIndex(), PolledEventReader()
    index.add_worker(1, 0)
    async with serving(EngineOptions(num_blocks=40), kv_events="trtllm") as client:
        for number in range(40):
            prompt = [100 + number % 5] * (16 * (number % 9) + 20)
            polled = reader.read(split(json.dumps(await drained(client)).encode()))
            assert (polled.rejected, polled.gaps, polled.restarts) == ([], [], 0)
            apply_batch(index, 1, EventBatch(timestamp=0, rank=None, events=polled.events, rejected=[]))
            overlap = index.match(hash_blocks(prompt[:-1], _SIZE, Namespace()), 0.0).get(1)
            answer = await client.post("/v1/completions", {"prompt": prompt, "max_tokens": 30, "ignore_eos": True})
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert (overlap.blocks * _SIZE if overlap else 0) == cached, number
            index.check_integrity()


async def test_a_reset_removes_every_block() -> None:
    async with serving(kv_events="trtllm") as client:
        await client.post("/v1/completions", {"prompt": [7] * 40, "max_tokens": 1})
        assert await client.post("/reset_prefix_cache", {}) == {"success": True}
        await client.post("/v1/completions", {"prompt": [8] * 20, "max_tokens": 1})
        events = await drained(client)
        assert held(events) == set(client.running.engine.model.cached_hashes())
    assert [event["data"]["type"] for event in events] == ["created", "stored", "stored", "removed", "stored", "stored"]


async def test_a_restart_counts_from_zero() -> None:
    async with serving(kv_events="trtllm") as client:
        await client.post("/v1/completions", {"prompt": [7] * 40, "max_tokens": 1})
        await drained(client)
        client.running.restart_rank(0)
        (event,) = await drained(client)
    assert (event["event_id"], event["data"]["type"]) == (0, "created")


async def test_a_full_buffer_loses_the_oldest_and_ids_say_so() -> None:
    async with serving(EngineOptions(num_blocks=40), kv_events="trtllm", kv_buffer_steps=5) as client:
        await load(client, 12)
        ids = [event["event_id"] for event in await drained(client)]
    assert len(ids) == 5
    assert ids[0] > 5


async def test_ranks_count_for_themselves() -> None:
    async with serving(kv_events="trtllm", data_parallel_size=2) as client:
        headers = {"X-data-parallel-rank": "1"}
        body = {"prompt": [7] * 40, "max_tokens": 1}
        async with client.session.post(client.url + "/v1/completions", json=body, headers=headers) as response:
            assert response.status == 200
        events = await drained(client)
    assert [(event["attention_dp_rank"], event["event_id"]) for event in events] == [(0, 0), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("form", ["map", "off"])
async def test_other_engines_have_nothing_to_ask_for(form: str) -> None:
    async with serving(kv_events=form) as client:
        await client.post("/kv_cache_events", None, status=404)


def test_the_address_to_ask_is_told() -> None:
    with engine_process("--port", "0", "--json", "--kv-events", "trtllm") as process:
        told = ready(process)
    assert told["kv_events_endpoint"] == told["url"] + "/kv_cache_events"
