"""Every golden frame decodes and is applied, with counts written down by hand."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kv_event.fixture_frames import WireFixture, captured, wire_fixtures
from kv_event.twin.decode import decode_batch
from kv_event.twin.tier import tier_of
from warmroute.block import Namespace, Tier, hash_blocks
from warmroute.kv_event import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    Duplicate,
    Gap,
    Next,
    Restart,
    SequenceTracker,
    apply_batch,
)
from warmroute.kv_event.frames import NumberedPayload, read_frames
from warmroute.prefix_index import PrefixIndex

WIRE = wire_fixtures()

# Stores, removes and clears over both frames of each release.
WIRE_COUNTS = {
    "vllm-0.9.2": (6, 2, 2),
    "vllm-0.10.2": (6, 2, 2),
    "vllm-0.14.1": (6, 2, 2),
    "vllm-0.18.1": (6, 2, 2),
    "vllm-0.20.0": (6, 2, 2),
    "vllm-0.22.1": (6, 2, 2),
    "vllm-0.23.0": (6, 2, 2),
    "vllm-0.24.0": (6, 2, 2),
    "vllm-0.25.1": (6, 2, 2),
    "vllm-0.26.0": (6, 2, 2),
    "vllm-0.29.0": (6, 2, 2),
    "vllm-0.30.0": (6, 2, 2),
    "vllm-0.33.0": (6, 2, 2),
    "sglang-0.4.9": (4, 2, 2),
    "sglang-0.5.9": (4, 2, 2),
    "sglang-0.5.14": (4, 2, 2),
    "sglang-0.5.19": (4, 2, 2),
    "sglang-0.5.20": (4, 2, 2),
    "sglang-0.5.22": (4, 2, 2),
    "sglang-0.5.23": (4, 2, 2),
}


def counts(messages: Iterable[list[bytes]]) -> tuple[int, int, int]:
    kinds: Counter[type] = Counter()
    for frames in messages:
        batch = read_frames(frames)
        if batch is not None:
            decoded = decode_batch(batch.payload)
            assert decoded.rejected == []
            kinds.update(map(type, decoded.events))
    return kinds[BlockStored], kinds[BlockRemoved], kinds[AllBlocksCleared]


def batches(name: str) -> list[NumberedPayload]:
    return [batch for frames in captured(name) if (batch := read_frames(frames)) is not None]


@pytest.mark.parametrize("fixture", WIRE, ids=lambda fixture: fixture.name)
def test_every_release_decodes_with_known_counts(fixture: WireFixture) -> None:
    assert counts(fixture.live) == WIRE_COUNTS[fixture.name]


def test_no_release_is_left_out() -> None:
    assert [fixture.name for fixture in WIRE] == list(WIRE_COUNTS)


def by_name(event: Any, fixture: WireFixture) -> dict[str, Any]:
    """An event of `decoded` as a map, whichever form it has there."""
    if isinstance(event, dict):
        return event
    names = {"BlockStored": fixture.stored_fields, "BlockRemoved": fixture.removed_fields}.get(event[0], [])
    return {"type": event[0], **dict(zip(names, event[1:], strict=True))}


@pytest.mark.parametrize("fixture", WIRE, ids=lambda fixture: fixture.name)
def test_the_decoded_values_are_the_published_ones(fixture: WireFixture) -> None:
    for message in fixture.live:
        batch = decode_batch(message[-1])
        assert (batch.timestamp, batch.rank) == (1700000000.5, 0) == (fixture.decoded[0], fixture.decoded[2])
        for event, published in zip(batch.events, fixture.decoded[1], strict=True):
            fields = by_name(published, fixture)
            assert type(event).__name__ == fields["type"]
            if isinstance(event, BlockStored):
                assert_store(event, fields)
            elif isinstance(event, BlockRemoved):
                assert event.block_hashes == fields["block_hashes"]
                assert (event.tier, event.group) == (tier_of(fields.get("medium")), fields.get("group_idx"))


def assert_store(event: BlockStored, fields: dict[str, Any]) -> None:
    assert event.block_hashes == fields["block_hashes"]
    assert event.parent == fields["parent_block_hash"]
    assert event.token_ids == fields["token_ids"]
    assert event.block_size == 4
    assert event.is_indexable
    number = f"lora-id:{fields['lora_id']}" if fields["lora_id"] else None
    assert event.adapter == (fields.get("lora_name") or number)
    assert event.tier is {"CPU": Tier.HOST, "GPU": Tier.DEVICE, None: Tier.DEVICE}[fields.get("medium")]
    assert event.salt == fields.get("cache_salt")
    assert event.group == fields.get("group_idx")
    assert event.spec_kind == fields.get("kv_cache_spec_kind")
    # `extra_keys` of the second store: the adapter, an image, and a string that at this place is not the start's salt.
    assert (event.block_keys is None) == (fields.get("extra_keys") is None)


@pytest.mark.parametrize("fixture", WIRE, ids=lambda fixture: fixture.name)
def test_every_release_is_applied(fixture: WireFixture) -> None:
    index = PrefixIndex()
    index.add_worker(1, 0)
    without_clear = decode_batch(fixture.live[0][-1])
    without_clear.events.pop()
    report = apply_batch(index, 1, without_clear)
    index.check_integrity()
    # [h1, h2], then h3 after h1; vLLM also names the content of h1 by its digest. Then one of h1's copies goes.
    sliding_window = any(isinstance(e, BlockStored) and e.spec_kind == "sliding_window" for e in without_clear.events)
    assert (report.removed, report.cleared, report.rejected, report.orphaned) == (1, 0, 0, 0)
    assert report.stored + report.duplicate == (3 if fixture.engine == "sglang" else 4) - sliding_window
    assert report.unindexed == sliding_window
    prompt = hash_blocks([1, 2, 3, 4, 5, 6, 7, 8], 4, Namespace())
    overlap = index.match(prompt, 0.0)
    if fixture.engine == "vllm":
        assert overlap[1].device == 2
    else:
        assert overlap == {}
    for message in fixture.live:
        assert apply_batch(index, 1, decode_batch(message[-1])).cleared == 1
    assert index.blocks(1) == 0
    index.check_integrity()


@pytest.mark.parametrize("fixture", WIRE, ids=lambda fixture: fixture.name)
def test_the_layout_of_replies_is_read_from_the_end(fixture: WireFixture) -> None:
    first, end = ([bytes.fromhex(f) if not f.startswith("<") else f.encode() for f in m] for m in fixture.replay_reply)
    assert read_frames(first) == NumberedPayload(1, first[-1])
    assert read_frames(end) is None


def test_the_captured_frames_have_known_counts() -> None:
    assert counts(captured("live-frames")) == (77, 479, 2)
    assert counts(captured("replay-frames")) == (77, 479, 2)
    assert counts(captured("live-frames-bytes")) == (2, 0, 2)


def test_the_captures_are_contiguous_and_the_second_process_is_a_restart() -> None:
    for name in ("live-frames", "replay-frames"):
        tracker = SequenceTracker()
        assert [tracker.observe(b.seq, b.mark) for b in batches(name)] == [Next()] * 88
    int_hashes, byte_hashes = batches("live-frames-bytes")
    tracker = SequenceTracker()
    assert tracker.observe(int_hashes.seq, int_hashes.mark) == Gap(0, 134)
    assert tracker.observe(byte_hashes.seq, byte_hashes.mark) == Restart(None)
    assert tracker.observe(byte_hashes.seq, byte_hashes.mark) == Duplicate()


def test_live_and_replayed_frames_leave_the_same_index() -> None:
    indexes = {}
    prompts = []
    for name in ("live-frames", "replay-frames"):
        index = indexes[name] = PrefixIndex()
        index.add_worker(1, 0)
        for batch in batches(name):
            events = decode_batch(batch.payload)
            apply_batch(index, 1, events)
            prompts += [
                (e.token_ids, Namespace(e.adapter, e.salt)) for e in events.events if isinstance(e, BlockStored)
            ]
        index.check_integrity()
    live, replayed = indexes["live-frames"], indexes["replay-frames"]
    assert live.stats() == replayed.stats()
    assert live.blocks(1) > 100
    matches = [
        [index.match(hash_blocks(tokens, 32, namespace), 0.0) for tokens, namespace in prompts]
        for index in (live, replayed)
    ]
    assert matches[0] == matches[1]
    assert any(matches[0])


def test_tenants_of_the_capture_share_nothing() -> None:
    index = PrefixIndex()
    index.add_worker(1, 0)
    salted = {}
    for batch in batches("live-frames"):
        events = decode_batch(batch.payload)
        for event in events.events:
            if isinstance(event, BlockStored) and event.salt is not None:
                salted[event.salt] = event
        apply_batch(index, 1, events)
        if len(salted) == 2:
            break
    assert set(salted) == {"tenantA", "tenantB"}
    a, b = salted["tenantA"], salted["tenantB"]
    assert a.token_ids == b.token_ids
    assert a.block_hashes != b.block_hashes
    blocks = len(a.block_hashes)
    for salt, expected in (("tenantA", blocks), ("tenantB", blocks), ("tenantC", 0), (None, 0)):
        matched = index.match(hash_blocks(a.token_ids, 32, Namespace(salt=salt)), 0.0)
        assert (matched[1].blocks if matched else 0) == expected, salt
    index.remove(1, Tier.DEVICE, a.block_hashes)
    assert index.match(hash_blocks(a.token_ids, 32, Namespace(salt="tenantA")), 0.0) == {}
    assert index.match(hash_blocks(a.token_ids, 32, Namespace(salt="tenantB")), 0.0)[1].blocks == blocks
    index.check_integrity()


def test_digests_and_low_64_bits_name_the_same_blocks() -> None:
    int_hashes, byte_hashes = (decode_batch(b.payload) for b in batches("live-frames-bytes"))
    index = PrefixIndex()
    for worker, batch in enumerate((int_hashes, byte_hashes)):
        index.add_worker(worker, 0)
        apply_batch(index, worker, batch)
    (store,) = (event for event in byte_hashes.events if isinstance(event, BlockStored))
    assert {len(h) for h in store.block_hashes if isinstance(h, bytes)} == {32}
    matched = index.match(hash_blocks(store.token_ids, 32, Namespace(salt="s1")), 0.0)
    assert {worker: overlap.device for worker, overlap in matched.items()} == {0: 9, 1: 9}
