"""What events mean for the index."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kv_event.recording import RecordingIndex
from kv_event.twin.decode import decode_batch
from kv_event.wire_format import cleared, encode, removed, stored
from warmroute.block import EngineHash, Namespace, Tier, hash_blocks
from warmroute.errors import UndecodableFrame
from warmroute.kv_event import (
    AllBlocksCleared,
    ApplyReport,
    BlockRemoved,
    BlockStored,
    EngineMemory,
    Event,
    EventApplier,
    EventBatch,
    apply_batch,
)
from warmroute.prefix_index import PrefixIndex

BASE = Namespace()


def batch(*events: Event, rejected: int = 0) -> EventBatch:
    return EventBatch(timestamp=0.0, rank=0, events=list(events), rejected=["unreadable"] * rejected)


def store(hashes: list[EngineHash], tokens: list[int], **fields: Any) -> BlockStored:
    return BlockStored(block_hashes=hashes, token_ids=tokens, block_size=2, **fields)


@pytest.fixture
def index() -> PrefixIndex:
    index = PrefixIndex()
    for worker in (1, 2):
        index.add_worker(worker, 0)
    return index


def blocks_on(
    index: PrefixIndex, tokens: list[int], namespace: Namespace = BASE, block_size: int = 2
) -> dict[int, int]:
    index.check_integrity()
    matched = index.match(hash_blocks(tokens, block_size, namespace), 0.0)
    return {worker: overlap.blocks for worker, overlap in matched.items()}


def test_events_reach_the_index_in_their_order() -> None:
    index = RecordingIndex()
    events = batch(
        BlockRemoved(block_hashes=[1, 2]),
        store([3, 4], [1, 2, 3, 4], parent=9, tier=Tier.HOST, block_keys=[None, b"k"]),
        AllBlocksCleared(),
        store([5], [1, 2], adapter="a", salt="s"),
        BlockRemoved(block_hashes=[5], tier=Tier.DISK),
        rejected=2,
    )
    report = apply_batch(index, 7, events)
    assert index.calls == [
        ("remove", 7, Tier.DEVICE, [1, 2]),
        ("store", 7, Tier.HOST, 9, [3, 4], [1, 2, 3, 4], BASE, [None, b"k"]),
        ("clear", 7),
        ("store", 7, Tier.DEVICE, None, [5], [1, 2], Namespace("a", "s"), None),
        ("remove", 7, Tier.DISK, [5]),
    ]
    assert report == ApplyReport(stored=3, removed=3, cleared=1, rejected=2, rejections=["unreadable"] * 2)


def test_a_store_is_a_chain(index: PrefixIndex) -> None:
    apply_batch(index, 1, batch(store([1], [1, 2]), store([2, 3, 4], [3, 4, 5, 6, 7, 8], parent=1)))
    assert blocks_on(index, [1, 2, 3, 4, 5, 6, 7, 8, 9]) == {1: 4}
    assert blocks_on(index, [3, 4]) == {}


def test_blocks_of_an_unknown_parent_wait_for_it(index: PrefixIndex) -> None:
    report = apply_batch(index, 1, batch(store([3], [5, 6], parent=2), store([4], [7, 8], parent=3)))
    assert (report.stored, report.orphaned) == (0, 2)
    assert blocks_on(index, [5, 6, 7, 8]) == {}
    report = apply_batch(index, 1, batch(store([1, 2], [1, 2, 3, 4])))
    assert (report.stored, report.linked) == (2, 2)
    assert blocks_on(index, [1, 2, 3, 4, 5, 6, 7, 8]) == {1: 4}


def test_negative_and_unsigned_hashes_are_one_key(index: PrefixIndex) -> None:
    hashes: list[EngineHash] = [100, 200, 40000, -27, 2**63 + 5]
    apply_batch(index, 1, batch(store(hashes, list(range(10)))))
    assert blocks_on(index, list(range(10))) == {1: 5}
    report = apply_batch(index, 1, batch(BlockRemoved(block_hashes=[2**64 - 27, 5 - 2**63])))
    assert report.removed == 2
    assert blocks_on(index, list(range(10))) == {1: 3}


def test_an_absent_block_does_not_stop_a_removal(index: PrefixIndex) -> None:
    apply_batch(index, 1, batch(store([1, 2], [1, 2, 3, 4])))
    report = apply_batch(index, 1, batch(BlockRemoved(block_hashes=[99, 1, 2])))
    assert report.removed == 2
    assert index.blocks(1) == 0


def test_overlapping_chunks_are_counted(index: PrefixIndex) -> None:
    a, b, c, d, e = [1, 2], [3, 4], [5, 6], [7, 8], [9, 10]
    chunks = batch(
        store([1, 2, 3], a + b + c, tier=Tier.HOST),
        store([3, 4, 5], c + d + e, parent=2, tier=Tier.HOST),
        BlockRemoved(block_hashes=[1, 2], tier=Tier.DEVICE),
    )
    report = apply_batch(index, 1, chunks)
    assert (report.stored, report.duplicate, report.removed) == (5, 1, 0)
    assert apply_batch(index, 1, batch(BlockRemoved(block_hashes=[3], tier=Tier.HOST))).removed == 1
    assert blocks_on(index, a + b + c + d + e) == {1: 5}
    apply_batch(index, 1, batch(BlockRemoved(block_hashes=[3], tier=Tier.HOST)))
    assert blocks_on(index, a + b + c + d + e) == {1: 2}
    assert apply_batch(index, 1, batch(BlockRemoved(block_hashes=[3, 77], tier=Tier.HOST))).removed == 0


def test_self_contradicting_stores_are_rejected_and_the_rest_applied(index: PrefixIndex) -> None:
    report = apply_batch(
        index,
        1,
        batch(
            store([1, 1], [1, 2, 3, 4]),
            store([1], [1, 2], parent=1),
            store([1], [1, 2], parent=2),
            store([2], [3, 4], parent=1),
            store([3], [1, 2]),
        ),
    )
    assert report.rejected == 2
    assert blocks_on(index, [1, 2, 3, 4]) == {1: 1}


def test_token_ids_out_of_range_cost_their_event_only(index: PrefixIndex) -> None:
    report = apply_batch(index, 1, batch(store([1], [1, 2**32]), store([2], [-1, 2]), store([3], [1, 2])))
    assert (report.rejected, report.stored) == (2, 1)


def test_clear_empties_this_worker_only(index: PrefixIndex) -> None:
    for worker in (1, 2):
        apply_batch(index, worker, batch(store([1, 2, 3], [1, 2, 3, 4, 5, 6], tier=Tier.HOST)))
    assert apply_batch(index, 1, batch(AllBlocksCleared())).cleared == 1
    assert blocks_on(index, [1, 2, 3, 4, 5, 6]) == {2: 3}


def test_adapters_and_salts_share_nothing(index: PrefixIndex) -> None:
    events = [
        stored([1], [1, 2]),
        stored([2], [1, 2], lora_name="x", extra_keys=[["x"]]),
        stored([3], [1, 2], extra_keys=[["tenant"]]),
        stored([4], [1, 2], lora_name="x", cache_salt="tenant"),
        stored([5], [1, 2], lora_id=7),
    ]
    namespaces = [BASE, Namespace("x"), Namespace(salt="tenant"), Namespace("x", "tenant"), Namespace("lora-id:7")]
    for position, namespace in enumerate(namespaces):
        index.clear(1)
        EventApplier(index, 1).apply(encode([events[position]], 1.0, 0))
        found = [other for other in namespaces if blocks_on(index, [1, 2], other)]
        assert found == [namespace]


def test_a_salted_prompt_goes_on_in_its_namespace(index: PrefixIndex) -> None:
    events = [stored([1], [1, 2], extra_keys=[["t"]]), stored([2], [3, 4], parent=1, extra_keys=[None])]
    EventApplier(index, 1).apply(encode(events, 1.0, 0))
    assert blocks_on(index, [1, 2, 3, 4], Namespace(salt="t")) == {1: 2}
    assert blocks_on(index, [1, 2, 3, 4]) == {}


def test_adapter_names_in_extra_keys_are_not_images(index: PrefixIndex) -> None:
    event = stored([1, 2], [1, 2, 3, 4], lora_name="ad-1", extra_keys=[["ad-1"], ["ad-1"]])
    EventApplier(index, 1).apply(encode([event], 1.0, 0))
    assert blocks_on(index, [1, 2, 3, 4], Namespace("ad-1")) == {1: 2}


def test_images_keep_equal_tokens_apart(index: PrefixIndex) -> None:
    events = [stored([1, 2], [1, 2, 3, 4], extra_keys=[None, [["cat", 1]]])]
    decoded = decode_batch(encode(events, 1.0, 0))
    apply_batch(index, 1, decoded)
    assert blocks_on(index, [1, 2, 3, 4]) == {1: 1}
    (event,) = decoded.events
    assert isinstance(event, BlockStored)
    matched = index.match(hash_blocks([1, 2, 3, 4], 2, BASE, event.block_keys), 0.0)
    assert matched[1].blocks == 2


def test_equal_prompts_score_alike_whatever_the_block_size(index: PrefixIndex) -> None:
    tokens = list(range(256))
    for worker, size in ((1, 16), (2, 64)):
        hashes = list(range(256 // size))
        EventApplier(index, worker).apply(encode([stored(hashes, tokens)], 1.0, 0))
    assert blocks_on(index, tokens, block_size=16)[1] * 16 == 256
    assert blocks_on(index, tokens, block_size=64)[2] * 64 == 256


def test_placeholders_join_known_blocks(index: PrefixIndex) -> None:
    offload = BlockStored(block_hashes=[2, 9], tier=Tier.HOST)
    report = apply_batch(index, 1, batch(store([1, 2], [1, 2, 3, 4]), offload, BlockRemoved(block_hashes=[1, 2])))
    assert (report.stored, report.duplicate, report.unindexed, report.removed) == (2, 1, 1, 2)
    apply_batch(index, 1, batch(store([1], [1, 2])))
    overlap = index.match(hash_blocks([1, 2, 3, 4], 2, BASE), 0.0)[1]
    assert (overlap.device, overlap.host) == (1, 1)


def test_sparse_stores_are_left_out(index: PrefixIndex) -> None:
    report = apply_batch(index, 1, batch(store([1, 3], [1, 2, 3, 4, 5, 6])))
    assert (report.stored, report.unindexed, report.rejected) == (0, 2, 0)
    assert index.size() == 0


@pytest.mark.parametrize(
    ("kind", "indexed"),
    [
        (None, True),
        ("unknown", True),
        ("full_attention", True),
        ("mla_attention", True),
        ("sink_full_attention", True),
        ("sliding_window", False),
        ("sliding_window_mla", False),
        ("mamba", False),
        ("chunked_local_attention", False),
        ("cross_attention", False),
        ("invented_later", False),
    ],
)
def test_only_groups_whose_prefixes_are_reusable_are_indexed(
    index: PrefixIndex, kind: str | None, indexed: bool
) -> None:
    report = apply_batch(index, 1, batch(store([1], [1, 2], spec_kind=kind, group=1)))
    assert (report.stored, report.unindexed) == ((1, 0) if indexed else (0, 1))


def test_a_removal_from_a_group_left_out_spares_the_other_groups_block(index: PrefixIndex) -> None:
    memory = EngineMemory()
    both = batch(
        store([1], [1, 2], spec_kind="full_attention", group=0),
        store([1], [1, 2], spec_kind="sliding_window", group=1),
    )
    apply_batch(index, 1, both, memory)
    assert apply_batch(index, 1, batch(BlockRemoved(block_hashes=[1], group=1)), memory).removed == 0
    assert blocks_on(index, [1, 2]) == {1: 1}
    assert apply_batch(index, 1, batch(BlockRemoved(block_hashes=[1], group=0)), memory).removed == 1
    assert blocks_on(index, [1, 2]) == {}


def test_a_placeholder_of_a_group_left_out_does_not_bring_it_back(index: PrefixIndex) -> None:
    applier = EventApplier(index, 1)
    applier.apply(encode([stored([1], [1, 2], group_idx=0, kv_cache_spec_kind="full_attention")], 1.0, 0))
    applier.apply(encode([stored([1], [1, 2], group_idx=1, kv_cache_spec_kind="mamba")], 1.0, 0))
    offloaded = {**stored([1], [1, 2], medium="CPU", group_idx=1), "token_ids": []}
    assert applier.apply(encode([offloaded], 1.0, 0)) == ApplyReport(unindexed=1)
    assert applier.apply(encode([removed([1], group_idx=1)], 1.0, 0)).removed == 0
    assert blocks_on(index, [1, 2]) == {1: 1}


def load(number: int | None, block_hash: int, tokens: list[int], name: str = "sql") -> bytes:
    """A store of an adapter in one of its loadings."""
    return encode([stored([block_hash], tokens, lora_id=number, lora_name=name)], 1.0, 0)


def test_an_adapter_loaded_again_under_its_name_is_not_credited_with_what_the_earlier_one_computed(
    index: PrefixIndex,
) -> None:
    applier = EventApplier(index, 1)
    applier.apply(encode([stored([1], [1, 2])], 1.0, 0))
    applier.apply(load(3, 2, [1, 2]))
    applier.apply(load(4, 3, [1, 2], "chat"))
    assert applier.apply(load(5, 4, [3, 4])) == ApplyReport(stored=1, reloaded=1)
    assert blocks_on(index, [1, 2], Namespace("sql")) == {}
    assert blocks_on(index, [3, 4], Namespace("sql")) == {1: 1}


@pytest.mark.parametrize("numbers", [[3, 3], [3, 2, 3], [3, None, 3], [None, 3]])
def test_another_front_ends_number_of_an_adapter_is_no_other_loading(
    index: PrefixIndex, numbers: list[int | None]
) -> None:
    applier = EventApplier(index, 1)
    reports = [applier.apply(load(number, place, [place, 9])) for place, number in enumerate(numbers)]
    assert reports == [ApplyReport(stored=1)] * len(numbers)


def test_a_new_engine_process_numbers_adapters_anew(index: PrefixIndex) -> None:
    applier = EventApplier(index, 1)
    applier.apply(load(1, 1, [1, 2]))
    applier.reset()
    assert applier.apply(load(2, 2, [3, 4])).reloaded == 0


def test_lanes_are_applied_side_by_side() -> None:
    index = PrefixIndex()
    lanes = range(4)
    for lane in lanes:
        index.add_worker(lane, 0)
    payloads = [encode([stored([n], [n, 0]), stored([n + 1000], [n, 1], n)], 1.0, 0) for n in range(500)]

    def follow(lane: int) -> int:
        applier = EventApplier(index, lane)
        ((batches, report),) = applier.apply_many(payloads[:250])
        assert isinstance(report, ApplyReport)
        assert batches == 250
        return report.stored + sum(applier.apply(payload).stored for payload in payloads[250:])

    with ThreadPoolExecutor(len(lanes)) as threads:
        assert list(threads.map(follow, lanes)) == [1000] * len(lanes)
    assert blocks_on(index, [7, 0, 7, 1]) == dict.fromkeys(lanes, 2)


def test_payloads_are_bytes(index: PrefixIndex) -> None:
    applier = EventApplier(index, 1)
    for payload in ("text", bytearray(b"\x92\x01\x90"), None):
        with pytest.raises(TypeError):
            applier.apply(payload)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            applier.apply_many([payload])  # type: ignore[list-item]


def test_a_forgotten_worker_is_not_brought_back(index: PrefixIndex) -> None:
    apply_batch(index, 1, batch(store([1], [1, 2])))
    index.forget(1)
    report = EventApplier(index, 1).apply(encode([stored([2], [3, 4]), removed([1]), cleared()], 1.0, 0))
    assert (report.stored, report.removed) == (0, 0)
    assert (index.size(), index.workers()) == (0, [2])


def test_an_applier_takes_bytes_and_remembers_groups_until_it_is_reset(index: PrefixIndex) -> None:
    applier = EventApplier(index, 1)
    window = stored([1], [1, 2], kv_cache_spec_kind="sliding_window", group_idx=1)
    assert applier.apply(encode([stored([1], [1, 2]), window], 1.0, 0)).unindexed == 1
    assert applier.apply(encode([removed([1], group_idx=1)], 1.0, 0)).removed == 0
    assert blocks_on(index, [1, 2]) == {1: 1}
    applier.reset()
    assert applier.apply(encode([removed([1], group_idx=1)], 1.0, 0)).removed == 1
    with pytest.raises(UndecodableFrame, match="not a batch of KV events"):
        applier.apply(b"\xc1")


def test_an_applier_goes_on_after_what_is_no_batch(index: PrefixIndex) -> None:
    payloads = [encode([stored([1], [1, 2])], 1.0, 0), b"\xc1", encode([stored([2], [3, 4], 1), 7], 1.0, 0)]
    (one, first), (two, second), (three, third) = EventApplier(index, 1).apply_many(payloads)
    assert (one, two, three) == (1, 1, 1)
    assert first == ApplyReport(stored=1)
    assert isinstance(second, str)
    assert isinstance(third, ApplyReport)
    assert (third.stored, third.rejected, len(third.rejections)) == (1, 1, 1)
    assert blocks_on(index, [1, 2, 3, 4]) == {1: 2}


def test_batches_in_a_row_share_a_report_up_to_one_that_clears(index: PrefixIndex) -> None:
    bad = encode([7], 1.0, 0)
    plain = [encode([stored([n], [n, n])], 1.0, 0) for n in range(3)]
    clearing = encode([cleared()], 1.0, 0)
    applied = EventApplier(index, 1).apply_many([*plain, bad, bad, clearing, clearing, plain[0], b"", plain[1]])
    assert [batches for batches, _ in applied] == [5, 1, 1, 1, 1, 1]
    reports = [report for _, report in applied if isinstance(report, ApplyReport)]
    assert [(report.stored, report.cleared, report.rejected) for report in reports] == [
        (3, 0, 2),
        (0, 1, 0),
        (0, 1, 0),
        (1, 0, 0),
        (1, 0, 0),
    ]
    assert len(reports[0].rejections) == 2
