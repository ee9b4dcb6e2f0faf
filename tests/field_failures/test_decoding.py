"""KV events that other routers could not read, or read wrongly: each is a frame an engine sends or has sent."""

from typing import Any

import msgspec
import pytest

from field_failures.heard import BASE, Heard, bytes_hashes, tokens
from field_failures.listening import listening
from kv_event.publisher import END, Publisher
from kv_event.wire_format import as_array, as_map, cleared, encode, removed, stored
from warmroute.block import EngineHash, Namespace, Tier, hash_blocks
from warmroute.errors import UndecodableFrame
from warmroute.kv_event.frames import read_frames

PROMPT = tokens(1, 2, 3, 4, 5)
STORE = {
    "block_hashes": [1, 2],
    "parent_block_hash": None,
    "token_ids": tokens(1, 2),
    "block_size": 2,
    "lora_id": None,
    "medium": "GPU",
    "lora_name": None,
}


@pytest.fixture
def heard() -> Heard:
    return Heard().add(1, 2)


def test_hashes_of_every_msgpack_int_width_are_taken(heard: Heard) -> None:
    """llm-d/llm-d-kv-cache#662: msgpack packs an int as narrow as it fits, and narrow ones were refused."""
    names = [100, 200, 40000, -27, 2**63 + 5]
    assert heard.hear(1, stored(names, PROMPT)).stored == 5
    assert heard.blocks(PROMPT) == {1: 5}
    assert heard.hear(1, removed(names)).removed == 5
    assert heard.index.size() == 0


@pytest.mark.parametrize("name", [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_negative_hash_is_the_same_block_as_its_twos_complement(heard: Heard, name: int, sign: int) -> None:
    """llm-d/llm-d-kv-cache#662: one engine's signed and another path's unsigned form are one key."""
    said = sign * name
    if said < -(2**63):
        said = -(2**63)
    heard.hear(1, stored([said], tokens(1)))
    assert heard.hear(1, removed([said % 2**64])).removed == 1
    heard.hear(1, stored([said % 2**64], tokens(1)))
    as_signed = (said + 2**63) % 2**64 - 2**63
    assert heard.hear(1, removed([as_signed])).removed == 1


@pytest.mark.parametrize("length", [8, 16, 32])
def test_hashes_may_be_bytes_and_one_worker_may_send_bytes_and_another_ints(heard: Heard, length: int) -> None:
    """llm-d-incubation/llm-d-infra#86: digests do not fit 64 bits, and nothing was indexed."""
    names = bytes_hashes(1, 2, 3, 4, 5, length=length)
    heard.hear(1, stored(names[:2], tokens(1, 2)))  # type: ignore[arg-type]  # bytes, as newer engines send them
    heard.hear(1, stored(names[2:], tokens(3, 4, 5), parent=names[1]))  # type: ignore[arg-type]
    heard.hear(2, stored([1, 2], tokens(1, 2)), stored([3, 4, 5], tokens(3, 4, 5), parent=2))
    assert heard.blocks(PROMPT) == {1: 5, 2: 5}
    assert heard.hear(1, removed(names[4:])).removed == 1  # type: ignore[arg-type]
    assert heard.blocks(PROMPT) == {1: 4, 2: 5}


def test_bytes_and_ints_of_one_worker_are_different_blocks(heard: Heard) -> None:
    """llm-d-incubation/llm-d-infra#86: one stable key for each value; a remove of the one never takes the other."""
    eight = (7).to_bytes(8)
    mixed: list[Any] = [7, eight]
    heard.hear(1, stored(mixed, tokens(1, 2)))
    assert heard.hear(1, removed([7])).removed == 1
    assert heard.hear(1, stored([9], tokens(3), parent=eight)).stored == 1  # type: ignore[arg-type]


def test_a_batch_of_arrays_of_maps_or_of_both_is_read(heard: Heard) -> None:
    """vllm-project/vllm#42892, volcano-sh/kthena#1535, ai-dynamo/dynamo#10660: maps since vLLM 0.24."""
    as_an_array, as_a_map = as_array("BlockStored", STORE), as_map("BlockStored", STORE)
    as_map_next = as_map("BlockStored", STORE | {"block_hashes": [3], "parent_block_hash": 2, "token_ids": tokens(3)})
    for events in ([as_an_array], [as_a_map], [as_an_array, as_map_next]):
        report = heard.hear(1, *events)
        assert (report.stored, report.rejected) == (2 + (len(events) == 2), 0)
        assert heard.blocks(PROMPT) == {1: report.stored}
        assert heard.hear(1, cleared()).cleared == 1
        heard.hear(1, as_an_array, ["AllBlocksCleared"])
        assert heard.index.size() == 0


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        [],
        {},
        ["BlockMoved", [1]],
        {"type": "BlockMoved"},
        {"type": "BlockStored"},
        ["BlockStored", "no list"],
        ["BlockStored", [1.5], None, tokens(9), 2],
        as_map("BlockStored", STORE | {"block_hashes": ["text"]}),
        as_map("BlockStored", STORE | {"token_ids": ["a", "b"]}),
        as_map("BlockStored", STORE | {"token_ids": [-1, 0, 0, 0]}),
        as_map("BlockStored", STORE | {"token_ids": [2**40, 0, 0, 0]}),
        as_map("BlockStored", STORE | {"extra_keys": [[["cat", 0]]]}),
    ],
    ids=repr,
)
def test_one_bad_event_costs_no_other_and_is_counted(heard: Heard, bad: Any) -> None:
    """sgl-project/sglang PR#40684, llm-d-kv-cache PR#661: one event that cannot be decoded cost the whole batch."""
    report = heard.hear(1, stored([10], tokens(1)), bad, stored([11], tokens(2), parent=10))
    assert (report.stored, report.rejected) == (2, 1)
    assert len(report.rejections) == 1
    assert heard.blocks(tokens(1, 2)) == {1: 2}


def test_keys_and_elements_that_nobody_knows_yet_are_passed_over(heard: Heard) -> None:
    """vllm-project/vllm#42892: an upgraded engine says more, and none of it may cost what was understood before."""
    more: dict[str, Any] = {"invented_in_2027": {"deep": [1, {"x": None}]}, "lookahead_token_ids": [[1], [2]]}
    report = heard.hear(
        1, stored([1, 2], tokens(1, 2), **more), {**cleared(), "medium": None} | {"type": "BlockStoredX"}
    )
    assert (report.stored, report.rejected) == (2, 1)
    assert heard.blocks(PROMPT) == {1: 2}


@pytest.mark.parametrize("length", [5, 6, 7, 8, 9, 11, 13, 16, 30])
def test_store_arrays_of_every_release_are_read(heard: Heard, length: int) -> None:
    """llm-d-kv-cache PR#132, dynamo PR#3180: engines append fields, decoders of a fixed length broke each time."""
    array = [*as_array("BlockStored", STORE), *[None] * 30][:length]
    report = heard.hear(1, array)
    assert (report.stored, report.rejected) == (2, 0)
    overlap = heard.index.match(hash_blocks(PROMPT, 2, BASE), 0.0)[1]
    assert overlap.device == 2, "no medium is the GPU"


@pytest.mark.parametrize("length", [2, 3, 4, 5, 9])
def test_remove_arrays_of_every_release_are_read(heard: Heard, length: int) -> None:
    """llm-d-kv-cache PR#132: as for stores."""
    heard.hear(1, stored([1, 2], tokens(1, 2)))
    array = [*as_array("BlockRemoved", {"block_hashes": [2], "medium": "GPU"}), *[None] * 9][:length]
    assert heard.hear(1, array).removed == 1
    assert heard.blocks(PROMPT) == {1: 1}


def test_a_batch_with_salted_and_session_stores_applies_whole(heard: Heard) -> None:
    """sgl-project/sglang#38561: the engine's own types could not read a batch with a salted store in it."""
    report = heard.hear(
        1,
        stored([1], tokens(1)),
        stored([2], tokens(2), cache_salt="a"),
        stored([3], tokens(3), session_id="s-1"),
        removed([1]),
    )
    assert (report.stored, report.removed, report.rejected) == (3, 1, 0)
    assert heard.blocks(tokens(3)) == {1: 1}
    assert heard.hear(1, cleared()).cleared == 1
    assert heard.index.size() == 0


def test_a_salted_array_event_of_sglang_is_read(heard: Heard) -> None:
    """sgl-project/sglang#38561: 0.5.18 and 0.5.19 put the salt into a map behind the medium."""
    plain = ["BlockStored", [1], None, tokens(1), 2, None, "GPU"]
    report = heard.hear(1, plain, [*plain, {"cache_salt": "a"}], ["BlockRemoved", [9], "GPU"])
    assert (report.stored + report.duplicate, report.rejected) == (2, 0)


@pytest.mark.parametrize("dialect", ["sglang", "vllm"])
def test_tenants_with_different_salts_share_no_prefix(heard: Heard, dialect: str) -> None:
    """sgl-project/sglang#24568: hashes that ignored the salt made tenants look as if they shared a prefix."""
    salted: dict[str, Any] = {"cache_salt": "a"} if dialect == "sglang" else {"extra_keys": [["a"], None]}
    heard.hear(1, stored([1, 2], tokens(1, 2), **salted), stored([3], tokens(3), parent=2))
    assert heard.blocks(PROMPT, Namespace(salt="b")) == {}
    assert heard.blocks(PROMPT) == {}
    assert heard.blocks(PROMPT, Namespace(salt="a")) == {1: 3}


def test_an_adapters_name_in_the_extra_keys_is_no_image(heard: Heard) -> None:
    """llm-d/llm-d-router#2927: the name was mixed into the block's key, so adapter requests never matched."""
    heard.hear(1, stored([1, 2], tokens(1, 2), lora_name="ad-1", extra_keys=[["ad-1"], ["ad-1"]]))
    assert heard.blocks(PROMPT, Namespace("ad-1")) == {1: 2}
    assert heard.blocks(PROMPT) == {}


def test_base_model_and_adapters_share_no_prefix(heard: Heard) -> None:
    """llm-d-kv-cache#167, vllm-project/vllm#44250, #30931: equal tokens of base and adapter collided."""
    heard.hear(1, stored([1, 2], tokens(1, 2)))
    heard.hear(2, stored([1, 2], tokens(1, 2), lora_id=1, lora_name="x", extra_keys=[["x"], ["x"]]))
    assert heard.blocks(PROMPT) == {1: 2}
    assert heard.blocks(PROMPT, Namespace("x")) == {2: 2}
    assert heard.blocks(PROMPT, Namespace("y")) == {}


def test_an_adapter_known_by_its_number_only_is_credited_to_nobody(heard: Heard) -> None:
    """vllm-project/vllm#30931: the number is an order of registration and differs between workers."""
    heard.hear(1, stored([1, 2], tokens(1, 2), lora_id=1))
    assert heard.blocks(PROMPT) == {}
    assert heard.blocks(PROMPT, Namespace("1")) == {}


def test_an_adapter_loaded_anew_under_its_name_starts_with_nothing(heard: Heard) -> None:
    """llm-d-kv-cache#167, carried on: other weights under the same name make the old blocks worthless."""
    heard.hear(1, stored([1, 2], tokens(1, 2), lora_id=1, lora_name="x"))
    assert heard.blocks(PROMPT, Namespace("x")) == {1: 2}
    heard.hear(1, stored([11], tokens(1), lora_id=2, lora_name="x"))
    assert heard.blocks(PROMPT, Namespace("x")) == {1: 1}
    heard.hear(1, stored([12], tokens(2), parent=11, lora_id=2, lora_name="x"))
    assert heard.blocks(PROMPT, Namespace("x")) == {1: 2}


@pytest.mark.parametrize("live_with_topic", [True, False], ids=["live-topic", "live-bare"])
@pytest.mark.parametrize("replies_with_topic", [True, False], ids=["replay-topic", "replay-bare"])
async def test_messages_with_and_without_a_topic_are_read_live_and_replayed(
    live_with_topic: bool, replies_with_topic: bool
) -> None:
    """vllm-project/vllm#45174: live messages have 3 frames, replayed ones had 2, and positions broke consumers."""
    heard = Heard().add(1)
    publisher = Publisher(live_with_topic=live_with_topic, replies_with_topic=replies_with_topic)
    async with publisher.serve():
        await publisher.publish(stored([1], tokens(1)))
        async with listening(heard, {1: publisher}) as ears:
            await ears.until(lambda: heard.blocks(PROMPT) == {1: 1}, "the replayed block")
            await publisher.publish(stored([2], tokens(2), parent=1))
            await ears.until(lambda: heard.blocks(PROMPT) == {1: 2}, "the live block")


async def test_without_a_topic_the_connection_says_whose_events_they_are() -> None:
    """vllm-project/vllm#45174: the topic is no identity, for it may be missing or the same on every worker."""
    heard = Heard().add(1, 2)
    one, two = Publisher(live_with_topic=False), Publisher(live_with_topic=False)
    async with one.serve(), two.serve(), listening(heard, {1: one, 2: two}) as ears:
        await one.publish(stored([1, 2], tokens(1, 2)))
        await two.publish(stored([1], tokens(1)))
        await ears.until(lambda: heard.blocks(PROMPT) == {1: 2, 2: 1}, "each block on its worker")


@pytest.mark.parametrize("front", [[], [b""], [b"", b""], [b"topic"], [b"topic", b""], [b"", b"topic"]])
def test_frames_are_counted_from_the_end(front: list[bytes]) -> None:
    """vllm-project/vllm#45174: whatever stands in front, the last frame is the batch and the one before its number."""
    payload = encode([stored([1], tokens(1))], 1.0, 0)
    batch = read_frames([*front, (3).to_bytes(8), payload])
    assert batch is not None
    assert (batch.seq, batch.payload) == (3, payload)
    assert read_frames([*front, END, b""]) is None, "the end of a replay is no batch"


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"\x90", msgspec.msgpack.encode({"ts": 1}), msgspec.msgpack.encode(7)]
)
def test_what_is_no_batch_is_told_as_such_and_changes_nothing(heard: Heard, payload: bytes) -> None:
    """vllm-project/vllm#42892: the outer batch stays an array; what is none must be counted, not taken as empty."""
    with pytest.raises(UndecodableFrame):
        heard.hear_bytes(1, payload)
    assert heard.index.size() == 0


@pytest.mark.parametrize(
    ("medium", "tier"),
    [("GPU", Tier.DEVICE), ("gpu", Tier.DEVICE), (None, Tier.DEVICE), ("CPU", Tier.HOST), ("cpu", Tier.HOST)]
    + [("CPU_PINNED", Tier.HOST), ("DISK", Tier.DISK), ("STORAGE", Tier.DISK), ("EXTERNAL", Tier.REMOTE)],
)
def test_a_medium_means_the_same_however_it_is_spelt(heard: Heard, medium: str | None, tier: Tier) -> None:
    """LMCache/LMCache PR#5076 and others: a spelling nobody expected made offloaded blocks count as on the GPU."""
    names: list[EngineHash] = [1]
    heard.hear(1, as_map("BlockStored", STORE | {"block_hashes": names, "token_ids": tokens(1), "medium": medium}))
    overlap = heard.index.match(hash_blocks(tokens(1), 2, BASE), 0.0)[1]
    counts = {
        Tier.DEVICE: overlap.device,
        Tier.HOST: overlap.host,
        Tier.DISK: overlap.disk,
        Tier.REMOTE: overlap.remote,
    }
    assert counts == {**dict.fromkeys(Tier, 0), tier: 1}
