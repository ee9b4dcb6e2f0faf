"""Batches as real vLLM servers sent them, written again byte by byte."""

import json
from pathlib import Path

import msgspec
import pytest

from kv_event.twin.decode import decode_batch
from warmroute.block import Namespace
from warmroute.emulator.kv_wire import KvWire
from warmroute.engine_model import KvChange, KvCleared, KvRemoved, KvStored
from warmroute.kv_event.messages import BlockRemoved, BlockStored, Event

_FRAMES = Path(__file__).parents[1] / "fixtures" / "kv_event" / "vllm-0.32-live-frames.jsonl"


def _change(event: Event) -> KvChange:
    if isinstance(event, BlockStored):
        hashes = [int(block_hash) for block_hash in event.block_hashes if isinstance(block_hash, int)]
        parent = event.parent if isinstance(event.parent, int) else None
        namespace = Namespace(event.adapter, event.salt)
        return KvStored(hashes, parent, event.token_ids, event.block_size, namespace)
    if isinstance(event, BlockRemoved):
        (block_hash,) = event.block_hashes
        assert isinstance(block_hash, int)
        return KvRemoved(block_hash)
    return KvCleared()


def test_maps_are_those_of_a_real_server() -> None:
    lines = _FRAMES.read_text().splitlines()
    assert len(lines) > 50
    for line in lines:
        payload = bytes.fromhex(json.loads(line)["frames_hex"][-1])
        batch = decode_batch(payload)
        written = KvWire("map").batch(batch.timestamp, [_change(event) for event in batch.events])
        assert msgspec.msgpack.decode(written) == msgspec.msgpack.decode(payload)
        assert written == payload


@pytest.mark.parametrize("namespace", [Namespace(), Namespace("lora"), Namespace("lora", "s"), Namespace(salt="s")])
@pytest.mark.parametrize("form", ["map", "array"])
def test_both_forms_say_the_same(form: str, namespace: Namespace) -> None:
    changes: list[KvChange] = [
        KvCleared(),
        KvStored([2**64 - 1, 5], None, list(range(8)), 4, namespace),
        KvStored([6], 5, list(range(4)), 4, namespace),
        KvRemoved(2**64 - 1),
    ]
    batch = decode_batch(KvWire(form).batch(1.5, changes))
    assert batch.timestamp == 1.5
    assert batch.rank == 0
    assert batch.rejected == []
    assert isinstance(batch.events[1], BlockStored)
    assert Namespace(batch.events[1].adapter, batch.events[1].salt) == namespace
    assert [_change(event) for event in (batch.events[0], batch.events[1], batch.events[3])] == [
        changes[0],
        changes[1],
        changes[3],
    ]
