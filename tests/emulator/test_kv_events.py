"""KV events over real ZMQ sockets: what a subscriber believes is what the engine's cache holds."""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import zmq
import zmq.asyncio

from emulator.serving import Client, serving
from kv_event.twin.decode import decode_batch
from warmroute.block import Namespace, hash_blocks
from warmroute.engine_model import EngineOptions
from warmroute.kv_event.apply import apply_batch
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, Event
from warmroute.prefix_index import PrefixIndex

_DEADLINE_S = 10


class Subscriber:
    """Reads live frames of one engine, and asks for old ones."""

    def __init__(self, socket: zmq.asyncio.Socket, replay: zmq.asyncio.Socket) -> None:
        self.socket = socket
        self.replay = replay

    async def frames(self) -> list[bytes]:
        async with asyncio.timeout(_DEADLINE_S):
            return await self.socket.recv_multipart()

    async def joined(self, client: Client) -> None:
        """Return once the subscription has reached the engine, which drops events before that."""
        for number in range(100):
            await client.post("/v1/completions", {"prompt": [7 + number] * 17, "max_tokens": 1})
            if await self.socket.poll(50):
                break
        while await self.socket.poll(100):
            await self.frames()

    async def replayed(self, start: int) -> list[list[bytes]]:
        await self.replay.send_multipart([b"", struct.pack(">Q", start)])
        replies: list[list[bytes]] = []
        async with asyncio.timeout(_DEADLINE_S):
            while not replies or replies[-1][2] != b"\xff" * 8:
                replies.append(await self.replay.recv_multipart())
        return replies


@asynccontextmanager
async def subscribed(client: Client) -> AsyncIterator[Subscriber]:
    source = client.running.kv_event_sources["0"]
    context = zmq.asyncio.Context()
    with context, context.socket(zmq.SUB) as live, context.socket(zmq.DEALER) as replay:
        live.subscribe(b"")
        live.connect(source["endpoint"])
        replay.connect(source["replay_endpoint"])
        try:
            yield Subscriber(live, replay)
        finally:
            live.close(linger=0)
            replay.close(linger=0)


def believed(events: list[Event]) -> dict[int | bytes, int]:
    blocks: Counter[int | bytes] = Counter()
    for event in events:
        match event:
            case BlockStored():
                blocks.update(event.block_hashes)
            case BlockRemoved():
                blocks.subtract(event.block_hashes)
            case AllBlocksCleared():
                blocks.clear()
    assert all(count >= 0 for count in blocks.values())
    return {block_hash: count for block_hash, count in blocks.items() if count}


async def load(client: Client, requests: int) -> None:
    """Prompts that share beginnings and together are larger than a cache of 40 blocks."""
    for number in range(requests):
        prompt = [100 + number % 3] * 48 + [200 + number] * (16 * (number % 7) + 5)
        await client.post("/v1/completions", {"prompt": prompt, "max_tokens": 20, "ignore_eos": True})


@pytest.mark.parametrize("form", ["map", "array"])
async def test_replayed_events_tell_the_cache(form: str) -> None:
    async with (
        serving(EngineOptions(num_blocks=40), kv_events=form, kv_events_topic="kv@x") as client,
        subscribed(client) as subscriber,
    ):
        await load(client, 30)
        replies = await subscriber.replayed(0)
        held = client.running.engine.model.cached_hashes()
    assert replies[-1] == [b"", b"", b"\xff" * 8, b""]
    assert [reply[:2] for reply in replies[:-1]] == [[b"", b"kv@x"]] * (len(replies) - 1)
    assert [int.from_bytes(reply[2], "big") for reply in replies[:-1]] == list(range(len(replies) - 1))
    batches = [decode_batch(reply[3]) for reply in replies[:-1]]
    assert not any(batch.rejected for batch in batches)
    events = [event for batch in batches for event in batch.events]
    assert any(isinstance(event, BlockRemoved) for event in events)
    assert believed(events) == held


async def test_live_frames_are_those_of_the_replay() -> None:
    async with (
        serving(EngineOptions(num_blocks=40), kv_events_topic="kv@x") as client,
        subscribed(client) as subscriber,
    ):
        await subscriber.joined(client)
        await client.post("/v1/completions", {"prompt": [9] * 40, "max_tokens": 30, "ignore_eos": True})
        live = [await subscriber.frames()]
        while await subscriber.socket.poll(200):
            live.append(await subscriber.frames())
        first = int.from_bytes(live[0][1], "big")
        replies = await subscriber.replayed(first)
    assert all(topic == b"kv@x" for topic, _, _ in live)
    assert [reply[1:] for reply in replies[:-1]] == live


async def test_the_index_of_a_router_agrees_with_the_engine() -> None:
    index = PrefixIndex()
    index.add_worker(1, prediction_limit=0)
    prompt = [42] * 100
    async with serving(EngineOptions(num_blocks=40)) as client, subscribed(client) as subscriber:
        await client.post("/v1/completions", {"prompt": [42] * 70, "max_tokens": 1, "cache_salt": "tenant"})
        await client.post("/v1/completions", {"prompt": prompt[:70], "max_tokens": 1})
        for reply in (await subscriber.replayed(0))[:-1]:
            report = apply_batch(index, 1, decode_batch(reply[3]))
            assert (report.rejected, report.orphaned) == (0, 0)
        answer = await client.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
    for namespace in (Namespace(), Namespace(salt="tenant")):
        overlap = index.match(hash_blocks(prompt, 16, namespace), 0.0)[1]
        assert overlap.device == 4
    assert index.match(hash_blocks(prompt, 16, Namespace(salt="other")), 0.0) == {}
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 4 * 16


async def test_a_reset_is_told_although_the_engine_is_idle() -> None:
    async with serving() as client, subscribed(client) as subscriber:
        await subscriber.joined(client)
        assert await client.post("/reset_prefix_cache", {}) == {"success": True}
        batch = decode_batch((await subscriber.frames())[2])
        answer = await client.post("/v1/completions", {"prompt": [7] * 17, "max_tokens": 1})
    assert batch.events == [AllBlocksCleared()]
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_reset_goes_out_with_the_next_step() -> None:
    async with serving() as client, subscribed(client) as subscriber:
        await subscriber.joined(client)
        await client.post("/reset_prefix_cache", {})
        await client.post("/v1/completions", {"prompt": [9] * 17, "max_tokens": 1})
        batch = decode_batch((await subscriber.frames())[2])
    assert [type(event) for event in batch.events] == [AllBlocksCleared, BlockStored]


async def test_a_reset_fails_while_a_request_holds_blocks() -> None:
    async with serving(speedup=1.0) as client:
        endless = {"prompt": [7] * 40, "max_tokens": 3000, "ignore_eos": True, "stream": True}
        async with client.session.post(client.url + "/v1/completions", json=endless) as response:
            await response.content.readany()
            assert await client.post("/reset_prefix_cache", {}) == {"success": False}


async def test_the_buffer_forgets_the_oldest() -> None:
    async with serving(EngineOptions(num_blocks=40), kv_buffer_steps=5) as client, subscribed(client) as subscriber:
        await load(client, 12)
        kept = [int.from_bytes(reply[2], "big") for reply in (await subscriber.replayed(0))[:-1]]
        late = await subscriber.replayed(kept[-1] + 1)
    assert len(kept) == 5
    assert kept[0] > 0
    assert late == [[b"", b"", b"\xff" * 8, b""]]


async def test_frames_that_are_no_request_are_ignored() -> None:
    async with serving() as client, subscribed(client) as subscriber:
        await subscriber.replay.send_multipart([b"", b"abc"])
        await subscriber.replay.send_multipart([struct.pack(">Q", 0)])
        assert len(await subscriber.replayed(0)) == 1


async def test_without_events_there_are_no_sources() -> None:
    async with serving(kv_events="off") as client:
        assert await client.get("/kv_event_sources") == {}
        await client.post("/v1/completions", {"prompt": [7] * 40, "max_tokens": 1})


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "127.0.0.2"])
async def test_every_kind_of_host_can_be_listened_on(host: str) -> None:
    async with serving(host=host) as client:
        await client.post("/v1/completions", {"prompt": [7] * 40, "max_tokens": 1})
        port = client.running.kv_event_sources["0"]["endpoint"].rsplit(":", 1)[1]
        assert int(port) > 0
