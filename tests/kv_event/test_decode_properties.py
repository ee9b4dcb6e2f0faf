"""Any event decodes to the same from either form, and what reads the bytes in Rust agrees with its twin in Python."""

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kv_event.twin.decode import decode_batch
from kv_event.wire_format import as_array, as_map, encode
from warmroute.block import EngineHash, Tier
from warmroute.errors import UndecodableFrame
from warmroute.kv_event import AllBlocksCleared, BlockRemoved, BlockStored, Event, EventBatch

MEDIA = {"GPU": Tier.DEVICE, "CPU": Tier.HOST, "DISK": Tier.DISK, "OBJ": Tier.REMOTE}

hashes = st.one_of(st.integers(-(2**63), 2**64 - 1), st.binary(max_size=33))
names = st.text("aZ0-é\0😀", min_size=1, max_size=8)


@st.composite
def stores(draw: st.DrawFn) -> tuple[BlockStored, dict[str, Any]]:
    """An event and the fields that mean it."""
    block_hashes: list[EngineHash] = draw(st.lists(hashes, min_size=1, max_size=5))
    block_size = draw(st.integers(1, 5))
    count = len(block_hashes) * block_size
    tokens = draw(st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count))
    parent = draw(st.none() | hashes)
    medium = draw(st.sampled_from(list(MEDIA)))
    adapter, salt = draw(st.none() | names), draw(st.none() | names)
    group = draw(st.none() | st.integers(0, 3))
    kind = draw(st.none() | st.sampled_from(["full_attention", "sliding_window"]))
    # A salt is stated in the extra keys at the start of a prompt only.
    salt = salt if parent is None else None
    extra_keys = [[adapter] if adapter else [] for _ in block_hashes]
    if salt is not None:
        extra_keys[0] = [*extra_keys[0], salt]
    if len(block_hashes) > 1 and salt in extra_keys[1]:
        salt, extra_keys = None, []
    event = BlockStored(
        block_hashes=block_hashes,
        parent=parent,
        token_ids=tokens,
        block_size=block_size,
        tier=MEDIA[medium],
        adapter=adapter,
        salt=salt,
        group=group,
        spec_kind=kind,
    )
    fields = {
        "block_hashes": block_hashes,
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": block_size,
        "lora_id": None,
        "medium": medium,
        "lora_name": adapter,
        "extra_keys": extra_keys if any(extra_keys) else None,
        "group_idx": group,
        "kv_cache_spec_kind": kind,
    }
    return event, fields


@st.composite
def removes(draw: st.DrawFn) -> tuple[BlockRemoved, dict[str, Any]]:
    block_hashes: list[EngineHash] = draw(st.lists(hashes, max_size=5))
    medium = draw(st.sampled_from(list(MEDIA)))
    group = draw(st.none() | st.integers(0, 3))
    event = BlockRemoved(block_hashes=block_hashes, tier=MEDIA[medium], group=group)
    return event, {"block_hashes": block_hashes, "medium": medium, "group_idx": group}


clears = st.just((AllBlocksCleared(), dict[str, Any]()))
any_event: st.SearchStrategy[tuple[Event, dict[str, Any]]] = st.one_of(stores(), removes(), clears)


@given(st.lists(st.tuples(any_event, st.booleans()), max_size=6), st.none() | st.integers(0, 9))
def test_both_forms_decode_to_what_they_mean(
    events: list[tuple[tuple[Event, dict[str, Any]], bool]], rank: int | None
) -> None:
    written = [(as_map if new else as_array)(type(event).__name__, fields) for (event, fields), new in events]
    expected = EventBatch(timestamp=7.0, rank=rank, events=[event for (event, _), _ in events], rejected=[])
    assert decode_batch(encode(written, 7.0, rank)) == expected


json_like: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | names | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
loose_event = st.one_of(
    json_like,
    st.lists(json_like, max_size=12).map(lambda rest: ["BlockStored", *rest]),
    st.fixed_dictionaries(
        {"type": st.just("BlockStored"), "block_hashes": st.lists(hashes, max_size=2)},
        optional=dict.fromkeys(
            (
                "parent_block_hash",
                "token_ids",
                "block_size",
                "medium",
                "lora_name",
                "extra_keys",
                "group_idx",
                "cache_salt",
            ),
            json_like,
        ),
    ),
)


@given(st.lists(loose_event, max_size=5))
def test_every_event_is_either_read_or_rejected(events: list[Any]) -> None:
    batch = decode_batch(encode(events, 1.0, 0))
    assert len(batch.events) + len(batch.rejected) == len(events)


@given(st.binary(max_size=64))
def test_random_bytes_raise_nothing_else(payload: bytes) -> None:
    with contextlib.suppress(UndecodableFrame):
        decode_batch(payload)


@given(st.lists(any_event, min_size=1, max_size=3), st.data())
def test_damaged_batches_raise_nothing_else(events: list[tuple[Event, dict[str, Any]]], data: st.DataObject) -> None:
    payload = bytearray(encode([as_map(type(event).__name__, fields) for event, fields in events], 1.0, 0))
    for position in data.draw(st.lists(st.integers(0, len(payload) - 1), max_size=4)):
        payload[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UndecodableFrame):
        decode_batch(bytes(payload))
