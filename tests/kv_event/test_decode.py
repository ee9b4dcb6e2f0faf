"""What the wire may look like: every form, width, length and spelling that engines have been seen to send."""

from typing import Any

import msgspec
import pytest

from kv_event.twin.decode import decode_batch
from kv_event.wire_format import as_array, as_map, cleared, encode, removed, stored
from warmroute.block import EngineHash, Tier
from warmroute.errors import UndecodableFrame
from warmroute.kv_event import AllBlocksCleared, BlockRemoved, BlockStored, Event

FIELDS: dict[str, Any] = {
    "block_hashes": [11, 12],
    "parent_block_hash": 10,
    "token_ids": [1, 2, 3, 4],
    "block_size": 2,
    "lora_id": None,
    "medium": "CPU",
    "lora_name": "sql",
}


def decode_one(event: Any) -> Event:
    batch = decode_batch(encode([event], 1.0, 0))
    assert batch.rejected == []
    (decoded,) = batch.events
    return decoded


def decode_store(**fields: Any) -> BlockStored:
    event = decode_one(as_map("BlockStored", {**FIELDS, **fields}))
    assert isinstance(event, BlockStored)
    return event


def reason_of(event: Any) -> str:
    batch = decode_batch(encode([cleared(), event, cleared()], 1.0, 0))
    assert batch.events == [AllBlocksCleared(), AllBlocksCleared()]
    (reason,) = batch.rejected
    return reason


def test_arrays_and_maps_of_one_batch_both_decode() -> None:
    batch = decode_batch(
        encode(
            [as_array("BlockStored", FIELDS), as_map("BlockStored", FIELDS), ["AllBlocksCleared"], cleared()], 1.0, 3
        )
    )
    array, mapped, *clears = batch.events
    assert (
        array
        == mapped
        == BlockStored(
            block_hashes=[11, 12], parent=10, token_ids=[1, 2, 3, 4], block_size=2, tier=Tier.HOST, adapter="sql"
        )
    )
    assert clears == [AllBlocksCleared(), AllBlocksCleared()]
    assert (batch.timestamp, batch.rank, batch.rejected) == (1.0, 3, [])


@pytest.mark.parametrize(
    ("rest", "rank"), [((), None), ((None,), None), ((2,), 2), ((2, "new", []), 2), (("x",), None)]
)
def test_a_batch_may_lack_its_rank_or_go_on_after_it(rest: tuple[Any, ...], rank: int | None) -> None:
    batch = decode_batch(encode([cleared()], 5, *rest))
    assert (batch.rank, batch.events, batch.timestamp) == (rank, [AllBlocksCleared()], 5.0)


@pytest.mark.parametrize("length", [5, 6, 7, 11])
def test_short_store_arrays_get_defaults_and_long_ones_are_cut(length: int) -> None:
    fields = {**FIELDS, "lora_name": None, "group_idx": 4, "kv_cache_spec_kind": "full_attention"}
    event = decode_one(as_array("BlockStored", fields, length) + (["new"] * 9 if length == 11 else []))
    assert isinstance(event, BlockStored)
    assert event.token_ids == [1, 2, 3, 4]
    assert event.tier is (Tier.HOST if length >= 7 else Tier.DEVICE)
    assert event.group == (4 if length >= 10 else None)


@pytest.mark.parametrize(
    ("array", "tier"), [(["BlockRemoved", [1]], Tier.DEVICE), (["BlockRemoved", [1], "CPU"], Tier.HOST)]
)
def test_short_remove_arrays_get_defaults(array: list[Any], tier: Tier) -> None:
    assert decode_one(array) == BlockRemoved(block_hashes=[1], tier=tier)
    assert decode_one([*array, *[None] * (4 - len(array)), None, "new", 1]) == BlockRemoved(block_hashes=[1], tier=tier)


def test_unknown_keys_and_odd_optional_fields_are_passed_over() -> None:
    event = decode_store(
        lora_id=[1], ownership={"a": 1}, group_idx="x", kv_cache_spec_kind=7, brand_new=[[1]], lora_name=None
    )
    assert event.block_hashes == [11, 12]
    assert (event.group, event.spec_kind) == (None, None)


HASHES = [0, 100, 200, 40000, -27, -129, -40000, -(2**31) - 1, -(2**63), 2**31, 2**63 + 5, 2**64 - 1]


def test_hashes_of_every_width_and_bytes_are_taken() -> None:
    hashes: list[EngineHash] = [*HASHES, b"", b"12345678", bytes(32)]
    for form in (as_array, as_map):
        fields = {**FIELDS, "block_hashes": hashes, "parent_block_hash": b"p" * 16}
        event = decode_one(form("BlockStored", fields))
        assert isinstance(event, BlockStored)
        assert (event.block_hashes, event.parent) == (hashes, b"p" * 16)
        assert decode_one(form("BlockRemoved", {"block_hashes": hashes})) == BlockRemoved(block_hashes=hashes)


BAD_EVENTS: list[Any] = [
    ["BlockMoved", [1], "GPU"],
    {"type": "BlockMoved"},
    {"block_hashes": [1]},
    [],
    {},
    None,
    7,
    "BlockStored",
    [None],
    ["BlockStored"],
    ["BlockRemoved", None],
    ["BlockRemoved", ["text"]],
    as_map("BlockStored", {**FIELDS, "block_hashes": [1.5, 2]}),
    as_map("BlockStored", {**FIELDS, "token_ids": [1, "2", 3, 4]}),
    as_map("BlockStored", {**FIELDS, "token_ids": [1, True, 3, 4]}),
    as_map("BlockStored", {**FIELDS, "token_ids": [1, [2, 3], 3, 4]}),
    as_map("BlockStored", {**FIELDS, "token_ids": [[1, 2], 3, 3, 4]}),
    as_map("BlockStored", {**FIELDS, "token_ids": [[1, 2, 3]]}),
    as_map("BlockStored", {**FIELDS, "block_size": "16"}),
    as_map("BlockStored", {**FIELDS, "extra_keys": [None]}),
    as_map("BlockStored", {**FIELDS, "extra_keys": ["salt", None]}),
    as_map("BlockStored", {**FIELDS, "extra_keys": "salt"}),
    as_map("BlockStored", {**FIELDS, "token_ids": [1, 2, 3, 2**32]}),
    as_map("BlockStored", {**FIELDS, "token_ids": [-1, 2, 3, 4]}),
    msgspec.msgpack.Ext(5, b"x"),
]


@pytest.mark.parametrize("event", BAD_EVENTS, ids=repr)
def test_one_bad_event_costs_no_other(event: Any) -> None:
    assert reason_of(event)


def test_invalid_text_inside_one_event_costs_no_other() -> None:
    good = encode([cleared(), as_map("BlockStored", {**FIELDS, "lora_name": "@@@@"})], 1.0, 0)
    batch = decode_batch(good.replace(b"@@@@", b"\xff\xfe\xff\xfe"))
    assert batch.events == [AllBlocksCleared()]
    assert len(batch.rejected) == 1


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x00",
        b"\x91\x00",
        b"\x93\xc0\x90\x00",
        b"\x93\x00\xc0\x00",
        b"\x80",
        b"\x91" * 5000 + b"\x00",
        b"\xff" * 9,
    ],
)
def test_what_is_no_batch_is_an_undecodable_frame(payload: bytes) -> None:
    with pytest.raises(UndecodableFrame, match="not a batch of KV events"):
        decode_batch(payload)


def test_a_truncated_batch_is_an_undecodable_frame() -> None:
    payload = encode([stored([1], [1, 2])], 1.0, 0)
    for length in range(len(payload)):
        with pytest.raises(UndecodableFrame):
            decode_batch(payload[:length])


def test_nesting_without_end_costs_its_event_only() -> None:
    event = b"\x93\xacBlockRemoved\x90" + b"\x91" * 100_000 + b"\x00"
    batch = decode_batch(b"\x93\x01\x92" + event + msgspec.msgpack.encode(cleared()) + b"\x00")
    assert batch.events == [BlockRemoved(block_hashes=[], tier=Tier.REMOTE), AllBlocksCleared()]


TIERS = {
    None: Tier.DEVICE,
    "GPU": Tier.DEVICE,
    "gpu": Tier.DEVICE,
    "CPU": Tier.HOST,
    "cpu": Tier.HOST,
    "CPU_PINNED": Tier.HOST,
    "DISK": Tier.DISK,
    "disk": Tier.DISK,
    "STORAGE": Tier.DISK,
    "FS": Tier.DISK,
    "OBJ": Tier.REMOTE,
    "EXTERNAL": Tier.REMOTE,
    "Remote": Tier.REMOTE,
    "d\u0131sk": Tier.REMOTE,
    "something new": Tier.REMOTE,
    7: Tier.REMOTE,
}


@pytest.mark.parametrize(("medium", "tier"), TIERS.items(), ids=map(str, TIERS))
def test_media_are_tiers(medium: Any, tier: Tier) -> None:
    assert decode_store(medium=medium).tier is tier
    assert decode_one(removed([1], medium=medium)) == BlockRemoved(block_hashes=[1], tier=tier)


@pytest.mark.parametrize(("locality", "tier"), [("REMOTE", Tier.REMOTE), ("remote", Tier.REMOTE), ("LOCAL", Tier.HOST)])
def test_a_remote_locality_wins_over_the_medium(locality: str, tier: Tier) -> None:
    assert decode_store(locality=locality).tier is tier
    assert decode_one(["BlockRemoved", [1], "CPU", None, locality]) == BlockRemoved(block_hashes=[1], tier=tier)


@pytest.mark.parametrize(
    ("lora_id", "lora_name", "adapter"),
    [
        (None, None, None),
        (0, "", None),
        (3, "sql", "sql"),
        (None, "sql", "sql"),
        (3, None, "lora-id:3"),
        ("a1", None, "lora-id:a1"),
        (True, None, "lora-id:?"),
        ([1], None, "lora-id:?"),
    ],
)
def test_an_adapter_without_a_name_is_nobody_elses(lora_id: Any, lora_name: str | None, adapter: str | None) -> None:
    assert decode_store(lora_id=lora_id, lora_name=lora_name).adapter == adapter


def test_a_named_adapter_has_the_number_of_its_loading() -> None:
    assert decode_store(lora_id=3, lora_name="sql").adapter_load == 3
    assert decode_store(lora_id=3, lora_name=None).adapter_load is None
    assert decode_store(lora_id="x", lora_name="sql").adapter_load is None


def extras(
    parent: int | None, *per_block: list[Any] | None, adapter: str | None = None
) -> tuple[str | None, list[Any]]:
    """(salt, what is left in each block's key) of a store with these extra keys."""
    count = len(per_block)
    event = decode_store(
        block_hashes=list(range(count)),
        token_ids=list(range(2 * count)),
        parent_block_hash=parent,
        lora_name=adapter,
        extra_keys=list(per_block),
    )
    keys = event.block_keys or [None] * count
    return event.salt, [None if key is None else msgspec.msgpack.decode(key) for key in keys]


def test_salts_images_adapters_and_embeddings_are_told_apart() -> None:
    assert extras(None, None, None) == (None, [None, None])
    assert extras(None, [], None) == (None, [None, None])
    assert extras(None, ["s"], None) == ("s", [None, None])
    assert extras(None, ["ad-1"], ["ad-1"], adapter="ad-1") == (None, [None, None])
    assert extras(None, ["ad-1", "s"], ["ad-1"], adapter="ad-1") == ("s", [None, None])
    assert extras(None, ["same", "same"], ["same"], adapter="same") == ("same", [None, None])
    assert extras(None, [["img", 3], "s"], [["img", -1]]) == ("s", [[["img", 3]], [["img", -1]]])
    assert extras(None, ["ad", ["img", 3], "s", b"emb"], None, adapter="ad") == ("s", [[["img", 3], b"emb"], None])
    assert extras(5, [["img", 0]], [["img", -2]], adapter="ad") == (None, [[["img", 0]], [["img", -2]]])


def test_bare_image_identifiers_of_older_releases_are_told_from_salts_where_possible() -> None:
    assert extras(5, ["img"], None) == (None, [["img"], None])
    assert extras(None, None, ["img"]) == (None, [None, ["img"]])
    assert extras(None, ["img"], ["img"]) == (None, [["img"], ["img"]])
    assert extras(None, ["img", "s"], ["img"]) == ("s", [["img"], ["img"]])


def test_equal_images_have_equal_keys_and_other_places_other_keys() -> None:
    def key(*pair: Any) -> bytes | None:
        keys = decode_store(block_hashes=[1], token_ids=[1, 2], extra_keys=[[list(pair)]]).block_keys
        return keys[0] if keys else None

    assert key("img", 3) == key("img", 3) is not None
    assert len({key("img", 3), key("img", 4), key("img2", 3), key("img", -3)}) == 4


def test_sglang_states_its_salt() -> None:
    assert decode_store(cache_salt="a").salt == "a"
    assert decode_store(cache_salt="").salt is None
    assert decode_store(cache_salt=7).salt is None
    plain = ["BlockStored", [1], None, [1, 2], 2, None, "GPU"]
    for metadata, salt in (({"cache_salt": "a", "more": 1}, "a"), ({}, None), ({"cache_salt": None}, None)):
        event = decode_one([*plain, metadata])
        assert isinstance(event, BlockStored)
        assert (event.salt, event.adapter, event.token_ids) == (salt, None, [1, 2])


def test_a_batch_with_salted_and_session_events_applies_whole() -> None:
    events = [
        stored([1], [1, 2]),
        stored([2], [1, 2], cache_salt="a"),
        stored([3], [5, 6], session_id="s"),
        removed([1]),
        cleared(),
    ]
    batch = decode_batch(encode(events, 1.0, 0))
    assert len(batch.events) == 5
    assert batch.rejected == []


def test_bigrams_are_the_tokens_they_begin_with() -> None:
    assert decode_store(token_ids=[[1, 2], [2, 3], [3, 4], [4, 5]]).token_ids == [1, 2, 3, 4]


def test_placeholders_and_sparse_stores_are_recognised() -> None:
    assert decode_store().is_indexable
    placeholder = decode_store(token_ids=[], block_size=0)
    assert (placeholder.is_placeholder, placeholder.is_indexable) == (True, False)
    assert decode_store(token_ids=None, block_size=None).is_placeholder
    sparse_stores: tuple[dict[str, Any], ...] = (
        {"token_ids": [1] * 6},
        {"token_ids": [1] * 3},
        {"block_size": 1},
        {"block_size": -2},
        {"block_hashes": []},
    )
    for fields in sparse_stores:
        sparse = decode_store(**fields)
        assert (sparse.is_placeholder, sparse.is_indexable) == (False, False)


def test_image_keys_of_tensorrt_llm_are_block_keys() -> None:
    def keys(mm_keys: Any, **fields: Any) -> list[Any]:
        event = decode_store(mm_keys=mm_keys, **fields)
        return [key and msgspec.msgpack.decode(key) for key in event.block_keys or []]

    image = {"type": "mm_key", "hash": "ab", "start_offset": 0}
    assert keys(None) == keys([]) == []
    assert keys([None, [image]]) == [None, [image]]
    assert keys([["ab", 3], None], extra_keys=[None, [b"emb"]]) == [["ab", 3], [b"emb"]]
    # Not one list per block: every block has them, so that none passes for plain text.
    assert keys([image]) == [[[image]], [[image]]]
    assert keys("ab") == [["ab"], ["ab"]]


def mooncake(event_type: str, **fields: Any) -> dict[str, Any]:
    """An event as Mooncake's master publishes it."""
    names = ("model_name", "block_size", "lora_name", "dp_rank", "token_ids", "parent_hash", "additional_salt")
    return {"event_id": 7, "timestamp": 1, "event_type": event_type, **dict.fromkeys(names), **fields}


def test_mooncakes_master_tells_where_hashes_are() -> None:
    stored_event = mooncake("stored", seq_hashes=[1, 2], medium="cpu", object_key="k")
    assert decode_one(stored_event) == BlockStored(block_hashes=[1, 2], tier=Tier.HOST)
    legacy = mooncake("stored", type="BlockStored", block_hashes=[1], seq_hashes=[2], token_ids=[5, 6], medium="disk")
    assert decode_one(legacy) == BlockStored(block_hashes=[1], tier=Tier.DISK)
    removed_event = mooncake("removed", block_hashes=None, seq_hashes=[b"d"], medium="disk", group_id="g")
    assert decode_one(removed_event) == BlockRemoved(block_hashes=[b"d"], tier=Tier.DISK)
    assert decode_one(mooncake("cleared")) == AllBlocksCleared()
    for bad in (mooncake("moved", seq_hashes=[1]), mooncake("stored"), mooncake("removed", seq_hashes=["x"])):
        assert reason_of(bad)
    assert decode_one({"event_type": None, "type": "BlockRemoved", "block_hashes": []}) == BlockRemoved(block_hashes=[])
