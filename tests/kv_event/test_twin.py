"""What reads the bytes in Rust means the same by them as its twin in Python, whatever they are."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kv_event.fixture_frames import captured, wire_fixtures
from kv_event.twin import agreement, msgpack
from kv_event.wire_format import as_array, as_map, encode
from warmroute.kv_event.frames import read_frames

unhurried = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def wide(number: int) -> msgspec.Raw:
    """The number in 64 bits, as encoders without a care write it."""
    return msgspec.Raw(b"\xd3" + number.to_bytes(8, signed=True))


# Few hashes, so that parents are found, copies pile up and removals hit.
small = st.integers(0, 6)
hashes = st.one_of(small, small.map(wide), st.sampled_from([-1, 2**64 - 1, -(2**63), b"", b"\x01", bytes(32)]))
tokens = st.one_of(st.integers(0, 2), st.integers(0, 2).map(wide), st.sampled_from([200, 40_000, 70_000, 2**32 - 1]))
names = st.sampled_from(["sql", "chat", "s", ""])
media = st.sampled_from(["GPU", "gpu", "cpu", "CPU_PINNED", "Disk", "OBJ", "new", None])
kinds = st.sampled_from([None, "full_attention", "sliding_window", "mamba", "unknown", "x"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(width=32)
    | names
    | st.binary(max_size=3)
    | st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary(max_size=3))
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | small, inner, max_size=3), max_leaves=6
)
extras = st.lists(names | st.tuples(names, small) | st.binary(max_size=2), max_size=3)
extra_lists = st.lists(st.none() | extras, max_size=4)


@st.composite
def stores(draw: st.DrawFn) -> dict[str, Any]:
    """A store that makes sense but for what `oddly` may change."""
    block_hashes = draw(st.lists(hashes, max_size=4))
    block_size = draw(st.integers(1, 3))
    count = len(block_hashes) * block_size
    fields: dict[str, Any] = {
        "block_hashes": block_hashes,
        "parent_block_hash": draw(st.none() | hashes),
        "token_ids": draw(st.just([]) | st.lists(tokens, min_size=count, max_size=count)),
        "block_size": block_size,
        "lora_id": draw(st.none() | small),
        "medium": draw(media),
        "lora_name": draw(st.none() | names),
        "extra_keys": draw(
            st.none() | st.lists(st.none() | extras, min_size=len(block_hashes), max_size=len(block_hashes))
        ),
        "group_idx": draw(st.none() | st.integers(0, 1)),
        "kv_cache_spec_kind": draw(kinds),
    }
    return fields


removals = st.fixed_dictionaries(
    {"block_hashes": st.lists(hashes, max_size=3), "medium": media, "group_idx": st.none() | st.integers(0, 1)}
)
odd_fields = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"), anything
        ),
        "token_ids": st.lists(tokens | st.tuples(tokens, tokens), max_size=4),
        "extra_keys": anything | extra_lists,
        "mm_keys": anything | extra_lists,
        "cache_salt": anything,
        "locality": anything | st.sampled_from(["REMOTE", "local"]),
        "group_idx": anything,
        "kv_cache_spec_kind": anything,
        "brand_new": anything,
    },
)
types = st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared", "BlockMoved"])
presences = st.fixed_dictionaries(
    {"event_type": st.sampled_from(["stored", "removed", "cleared", "moved", None])},
    optional={
        "type": types,
        "seq_hashes": st.lists(hashes, max_size=3) | anything,
        "block_hashes": st.lists(hashes, max_size=3) | anything,
        "token_ids": st.lists(tokens, max_size=3),
        "medium": media,
        "group_idx": small,
    },
)


def written(kind: str, fields: dict[str, Any], odd: dict[str, Any], length: int | None) -> Any:
    """An event as a map, or as an array of some length."""
    fields = {**fields, **odd}
    return as_map(kind, fields) if length is None else as_array(kind, fields, length)


lengths = st.none() | st.integers(0, 14)
no_oddities = st.just(dict[str, Any]())
events = st.one_of(
    st.builds(written, st.just("BlockStored"), stores(), no_oddities, st.none() | st.just(14)),
    st.builds(written, st.just("BlockStored"), stores(), no_oddities, st.none() | st.just(14)),
    st.builds(written, st.just("BlockRemoved"), removals, no_oddities, st.none() | st.just(5)),
    st.builds(written, st.just("BlockStored"), stores(), odd_fields, lengths),
    st.builds(written, types.filter(lambda kind: kind != "BlockMoved"), stores(), odd_fields, lengths),
    st.just({"type": "AllBlocksCleared"}),
    presences,
    st.lists(anything, max_size=4).map(lambda rest: ["BlockStored", *rest]),
    st.dictionaries(st.sampled_from(["type", "block_hashes", "x"]), anything, max_size=3),
    anything,
)
batches = st.builds(encode, st.lists(events, max_size=6), st.just(1.5) | small, anything)


@pytest.mark.parametrize("fixture", wire_fixtures(), ids=lambda fixture: fixture.name)
def test_the_frames_of_every_release_mean_the_same_to_both(fixture: Any) -> None:
    payloads = [message[-1] for message in fixture.live]
    agreement.check(payloads)
    agreement.check_each(payloads)


@pytest.mark.parametrize("name", ["live-frames", "live-frames-bytes", "replay-frames"])
def test_the_frames_of_a_real_server_mean_the_same_to_both(name: str) -> None:
    agreement.check([batch.payload for frames in captured(name) if (batch := read_frames(frames)) is not None])


@unhurried
@given(st.lists(batches, min_size=1, max_size=4))
def test_any_batches_mean_the_same_to_both(payloads: list[bytes]) -> None:
    agreement.check(payloads)


@unhurried
@given(batches, st.data())
def test_damaged_batches_mean_the_same_to_both(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for position in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=4)):
        damaged[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | st.integers(0, len(damaged)))
    agreement.check([bytes(damaged)[:cut]])


@given(st.binary(max_size=48))
def test_random_bytes_mean_the_same_to_both(payload: bytes) -> None:
    agreement.check([payload, b"\x92\x01\x91" + payload])


def test_every_cut_of_a_batch_is_refused_by_both() -> None:
    store = as_map("BlockStored", {"block_hashes": [1], "token_ids": [1, 2], "block_size": 2, "extra_keys": [["s"]]})
    payload = encode([store, store], 1.0, 0)
    agreement.check_each(payload[:length] for length in range(len(payload) + 1))


@given(anything.filter(lambda value: "nan" not in repr(value)))
def test_the_twins_reading_is_that_of_another_decoder(value: Any) -> None:
    """Its values are msgspec's, and its shortest form is what msgspec writes."""
    written = msgspec.msgpack.encode(value)
    assert msgpack.encode(msgpack.decode(written)) == written
