"""Blocks in CPU memory and on disk: what the engine says of them is where the router finds them."""

import dataclasses
import json
import random
from collections.abc import Callable, Sequence

import pytest

from emulator.serving import Client, serving
from warmroute.block import Namespace, Overlap, Tier, hash_blocks
from warmroute.emulator import EmulatorOptions
from warmroute.emulator.kv_buffer import KvBuffer
from warmroute.emulator.kv_wire import KvWire
from warmroute.engine_model import EngineModel, EngineOptions, KvChange, Request
from warmroute.engine_model.block_hasher import BlockHasher
from warmroute.errors import ConfigError
from warmroute.kv_event import EventApplier, EventBatch, apply_batch
from warmroute.kv_event.tensorrt_llm import PolledEventReader, split
from warmroute.prefix_index import PrefixIndex

_SIZE, _SEED, _LANE = 4, 5, 1
_WORLD = EngineOptions(
    block_size=_SIZE,
    num_blocks=24,
    max_num_batched_tokens=64,
    prefill_tokens_per_s=100.0,
    host_blocks=20,
    disk_blocks=30,
    host_load_tokens_per_s=2_000.0,
    disk_load_tokens_per_s=400.0,
)
Hear = Callable[[Sequence[KvChange]], None]


def over_zmq(form: str, index: PrefixIndex) -> Hear:
    wire, applier = KvWire(form), EventApplier(index, _LANE)

    def hear(changes: Sequence[KvChange]) -> None:
        report = applier.apply(wire.batch(0.0, changes))
        assert report.rejected == 0
        assert report.unindexed == 0, "a block was announced by a hash that is not known"

    return hear


def asked_for(world: EngineOptions, index: PrefixIndex) -> Hear:
    buffer, reader = KvBuffer(world, rank=None, limit=100_000), PolledEventReader()

    def hear(changes: Sequence[KvChange]) -> None:
        buffer.publish(changes)
        polled = reader.read(split(json.dumps(buffer.drain()).encode()))
        assert (polled.rejected, polled.gaps, polled.restarts) == ([], [], 0)
        apply_batch(index, _LANE, EventBatch(timestamp=0, rank=None, events=polled.events, rejected=[]))

    return hear


def held(engine: EngineModel, prompt: Sequence[int]) -> Overlap:
    """What the engine has of a prompt, each block counted in the fastest tier, up to the first that it has not."""
    tiers = [engine.cached_hashes(tier) for tier in (Tier.DEVICE, Tier.HOST, Tier.DISK)]
    counts = [0, 0, 0]
    for block_hash in BlockHasher(_SIZE, _SEED).hashes(prompt, Namespace()):
        tier = next((tier for tier, blocks in enumerate(tiers) if block_hash in blocks), None)
        if tier is None:
            break
        counts[tier] += 1
    return Overlap(*counts)


def run(engine: EngineModel, name: str, prompt: Sequence[int], now: float, hear: Hear) -> float:
    """One request from its arrival to its end; the time then."""
    engine.submit(Request(name, prompt, [9] * 6), now)
    while (wake_at := engine.wake_at(now)) is not None:
        now, step = wake_at, engine.step(wake_at)
        if step is not None:
            now, changes = step.ends_at, engine.complete(step).changes
            if changes:
                hear(changes)
    return now


@pytest.mark.parametrize("form", ["map", "array", "trtllm"])
def test_the_index_knows_every_block_in_its_tier(form: str) -> None:
    index = PrefixIndex()
    index.add_worker(_LANE, 0)
    polled = form == "trtllm"
    world = dataclasses.replace(_WORLD, disk_blocks=0) if polled else _WORLD
    hear = asked_for(world, index) if polled else over_zmq(form, index)
    engine = EngineModel(world, _SEED, keeps_partial_blocks=polled)
    rng, now = random.Random(1), 0.0
    prompts = [
        [family] * 20 + [100 * family + question] * rng.randrange(4, 40) for family in range(4) for question in range(3)
    ]
    best = Overlap()
    for number in range(150):
        now = run(engine, str(number), rng.choice(prompts), now, hear)
        for prompt in prompts:
            expected = held(engine, prompt)
            found = index.match(hash_blocks(prompt, _SIZE, Namespace()), 0.0).get(_LANE, Overlap())
            assert found == expected
            best = Overlap(*(max(getattr(best, tier), getattr(found, tier)) for tier in ("device", "host", "disk")))
    index.check_integrity()
    state = engine.state()
    assert min(best.device, best.host) > 3
    assert state.host_hits > 20
    if not polled:
        assert best.disk > 3
        assert state.disk_hits > 20


async def _post(client: Client, token: int) -> int:
    """A prompt of 160 tokens; how many were cached."""
    answer = await client.post("/v1/completions", {"prompt": [token] * 160, "max_tokens": 2, "ignore_eos": True})
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


async def test_loaded_tokens_are_reported_as_cached_and_counted_as_external() -> None:
    """11 blocks of 16 on the GPU, where each prompt needs 11: the other one has gone to CPU memory each time."""
    async with serving(EngineOptions(num_blocks=11, host_blocks=40)) as client:
        assert [await _post(client, token) for token in (7, 8, 7, 8)] == [0, 0, 144, 144]
        assert await client.metric("vllm:external_prefix_cache_queries_total") == 640
        assert await client.metric("vllm:external_prefix_cache_hits_total") == 288
        assert await client.metric("vllm:prefix_cache_hits_total") == 0


async def test_without_tiers_nothing_is_external() -> None:
    async with serving(EngineOptions(num_blocks=11)) as client:
        assert [await _post(client, token) for token in (7, 8, 7)] == [0, 0, 0]
        assert "external_prefix_cache" not in await client.text("/metrics")


def test_trtllm_has_two_levels() -> None:
    (created,) = KvBuffer(_WORLD, rank=None, limit=10).drain()
    assert created["data"] == {"type": "created", "num_blocks_per_cache_level": [24, 20]}
    with pytest.raises(ConfigError, match="leave disk_blocks at 0"):
        EmulatorOptions(kv_events="trtllm", engine=_WORLD)
