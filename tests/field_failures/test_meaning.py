"""KV events that other routers understood wrongly: copies, orphans, removals, contradictions, block sizes."""

import math
from typing import Any

import pytest

from field_failures.heard import BASE, Heard, tokens
from kv_event.wire_format import cleared, encode, removed, stored
from warmroute.block import Overlap, hash_blocks
from warmroute.prefix_index import PrefixIndex

PROMPT = tokens(1, 2, 3, 4, 5)


@pytest.fixture
def heard() -> Heard:
    return Heard().add(1, 2)


def offloaded(names: list[int], blocks: list[int], parent: int | None = None) -> dict[str, Any]:
    return stored(names, tokens(*blocks), parent, medium="CPU")


# --- orphans ---


def test_a_store_with_an_unknown_parent_waits_and_is_linked_when_the_parent_comes(heard: Heard) -> None:
    """llm-d-kv-cache#372: after a restart of the router the store was dropped, and then all its children."""
    report = heard.hear(1, stored([3], tokens(3), parent=2), stored([4], tokens(4), parent=3))
    assert (report.stored, report.orphaned) == (0, 2)
    assert heard.index.stats()["orphans"] == 2
    assert heard.blocks(tokens(3, 4)) == {}, "never as the start of a prompt"
    assert heard.blocks(PROMPT) == {}
    report = heard.hear(1, stored([1, 2], tokens(1, 2)))
    assert (report.stored, report.linked) == (2, 2)
    assert heard.index.stats()["orphans"] == 0
    assert heard.index.stats()["linked"] == 2
    assert heard.blocks(PROMPT) == {1: 4}


def test_orphans_that_share_a_parent_are_all_linked(heard: Heard) -> None:
    """llm-d-kv-cache#372: a conversation that branches has several children of one block."""
    heard.hear(1, *(stored([10 + leaf], tokens(10 + leaf), parent=1) for leaf in range(5)))
    assert heard.hear(1, stored([1], tokens(1))).linked == 5
    assert [heard.blocks(tokens(1, 10 + leaf)) for leaf in range(5)] == [{1: 2}] * 5


def test_a_parent_that_comes_on_another_worker_links_nothing_here(heard: Heard) -> None:
    """llm-d-kv-cache#372: engine hashes are each worker's own."""
    heard.hear(1, stored([2], tokens(2), parent=1))
    heard.hear(2, stored([1], tokens(1)))
    assert heard.blocks(tokens(1, 2)) == {2: 1}
    assert heard.index.stats()["orphans"] == 1


def test_orphans_are_bounded_and_the_oldest_go() -> None:
    """llm-d-kv-cache#372: what waits for a parent that never comes must not fill the memory."""
    heard = Heard(PrefixIndex(orphan_limit=100)).add(1)
    for number in range(10_000):
        heard.appliers[1].apply(payload_of_orphan(number))
    assert heard.index.stats()["orphans"] == 100
    assert heard.index.stats()["orphans_dropped"] == 9_900
    assert heard.hear(1, stored([0], tokens(0))).linked == 100
    assert heard.blocks(tokens(0, 9_999)) == {1: 2}
    assert heard.blocks(tokens(0, 9_899)) == {1: 1}


def payload_of_orphan(number: int) -> bytes:
    return encode([stored([number + 1], tokens(number), parent=0)], 1.0, 0)


def test_an_orphan_that_is_removed_does_not_come_back(heard: Heard) -> None:
    """llm-d-kv-cache#372: the engine evicted it while it waited."""
    heard.hear(1, stored([2], tokens(2), parent=1), removed([2]), stored([1], tokens(1)))
    assert heard.blocks(tokens(1, 2)) == {1: 1}
    assert heard.index.stats()["orphans"] == 0


def test_a_clear_takes_the_orphans_too(heard: Heard) -> None:
    """llm-d-kv-cache#372: they are of the cache that was cleared."""
    heard.hear(1, stored([2], tokens(2), parent=1), cleared(), stored([1], tokens(1)))
    assert heard.blocks(tokens(1, 2)) == {1: 1}


# --- copies ---


def test_a_block_in_two_offloaded_chunks_stays_until_both_are_removed(heard: Heard) -> None:
    """llm-d-kv-cache PR#680: overlapping chunks list a block twice, and the first removal evicted it."""
    heard.hear(1, offloaded([1, 2, 3], [1, 2, 3]), offloaded([3, 4, 5], [3, 4, 5], parent=2))
    assert heard.blocks(PROMPT) == {1: 5}
    heard.hear(1, removed([1, 2, 3], medium="CPU"))
    assert heard.index.blocks(1) == 3, "3, 4 and 5 are still there"
    assert heard.hear(1, removed([3], medium="CPU")).removed == 1
    assert heard.index.blocks(1) == 2


def test_removing_what_was_never_there_is_harmless_and_no_count_goes_below_zero(heard: Heard) -> None:
    """llm-d-kv-cache PR#680: a count below zero makes the next store of the block vanish."""
    assert heard.hear(1, *[removed([1])] * 3).removed == 0
    heard.hear(1, stored([1], tokens(1)))
    assert heard.blocks(tokens(1)) == {1: 1}
    assert heard.hear(1, removed([1]), removed([1]), removed([1])).removed == 1
    heard.hear(1, stored([1], tokens(1)))
    assert heard.blocks(tokens(1)) == {1: 1}


@pytest.mark.parametrize("copies", [2, 3, 7])
def test_as_many_removals_as_copies_take_a_block(heard: Heard, copies: int) -> None:
    """vllm-project/vllm#55092, #48933: one hash lies in several physical blocks, each announced and removed."""
    heard.hear(1, *[stored([1], tokens(1))] * copies)
    for _ in range(copies - 1):
        heard.hear(1, removed([1]))
        assert heard.blocks(tokens(1)) == {1: 1}
    heard.hear(1, removed([1]))
    assert heard.blocks(tokens(1)) == {}


def test_a_removal_from_one_tier_leaves_the_others(heard: Heard) -> None:
    """llm-d-kv-cache PR#680: offloading stores in host memory, then removes from the GPU."""
    heard.hear(1, stored([1, 2], tokens(1, 2)), offloaded([1, 2], [1, 2]), removed([1, 2]))
    assert heard.index.match(hash_blocks(PROMPT, 2, BASE), 0.0) == {1: Overlap(host=2)}
    heard.hear(1, removed([1, 2]))
    assert heard.index.blocks(1) == 2, "the GPU has none left to remove"
    heard.hear(1, removed([2], medium="CPU"))
    assert heard.index.match(hash_blocks(PROMPT, 2, BASE), 0.0) == {1: Overlap(host=1)}


def test_a_placeholder_of_an_offloaded_block_is_one_more_copy_of_what_is_known(heard: Heard) -> None:
    """llm-d-kv-cache PR#680: offloading connectors name hashes only, without tokens or block size."""
    bare = {"type": "BlockStored", "block_hashes": [2, 99], "parent_block_hash": None, "token_ids": [], "block_size": 0}
    report = heard.hear(1, stored([1, 2], tokens(1, 2)), {**bare, "lora_id": None, "medium": "CPU", "lora_name": None})
    assert (report.duplicate, report.unindexed, report.rejected) == (1, 1, 0)
    heard.hear(1, removed([1, 2]), removed([99], medium="CPU"))
    assert heard.index.blocks(1) == 1
    heard.hear(1, stored([1], tokens(1)))
    assert heard.index.match(hash_blocks(PROMPT, 2, BASE), 0.0) == {1: Overlap(device=1, host=1)}


def test_an_unknown_block_does_not_stop_the_rest_of_a_removal(heard: Heard) -> None:
    """dynamo PR#14652: the first absent hash ended the batch."""
    heard.hear(1, stored([1, 2], tokens(1, 2)))
    assert heard.hear(1, removed([77, 1, 78, 2, 79])).removed == 2
    assert heard.index.size() == 0


# --- contradictions ---


def test_a_store_that_repeats_a_hash_is_skipped_and_clears_nothing(heard: Heard) -> None:
    """dynamo PR#6569, PR#8473: it was turned into a clear of the whole worker."""
    heard.hear(1, stored([1], tokens(1)))
    report = heard.hear(1, stored([8, 8], tokens(8, 9)), stored([2], tokens(2), parent=1))
    assert (report.stored, report.rejected, report.cleared) == (1, 1, 0)
    assert heard.blocks(PROMPT) == {1: 2}
    assert heard.blocks(tokens(8)) == {}


@pytest.mark.parametrize("names", [[1], [2, 1], [1, 2], [2, 3, 1]])
def test_a_store_that_names_itself_as_parent_is_skipped(heard: Heard, names: list[int]) -> None:
    """dynamo PR#6569: a block that is its own ancestor."""
    report = heard.hear(1, stored(names, tokens(*names), parent=1), stored([5], tokens(5)))
    assert (report.stored, report.rejected) == (1, 1)
    assert heard.index.size() == 1


@pytest.mark.parametrize("length", [2, 3, 10])
def test_a_circle_over_several_events_ends_nothing_and_is_credited_to_nobody(heard: Heard, length: int) -> None:
    """dynamo PR#8473: stores whose parents lead round in a circle made the walk endless."""
    circle = [stored([name], tokens(name), parent=(name + 1) % length) for name in range(length)]
    report = heard.hear(1, *circle)
    assert (report.stored, report.orphaned) == (0, length)
    assert all(heard.blocks(tokens(name)) == {} for name in range(length))
    report = heard.hear(1, stored([0], tokens(50)))
    assert report.stored == 1
    assert heard.blocks(tokens(50)) == {1: 1}
    heard.hear(1, cleared())
    assert (heard.index.size(), heard.index.stats()["orphans"]) == (0, 0)


def test_a_known_block_that_turns_up_under_a_child_of_its_own_makes_no_circle(heard: Heard) -> None:
    """dynamo PR#8473: h1 under h2, when h2 is under h1 already."""
    heard.hear(1, stored([1], tokens(1)), stored([2], tokens(2), parent=1), stored([1], tokens(3), parent=2))
    assert heard.index.blocks(1) == 2
    assert heard.blocks(tokens(1, 2, 3)) == {}, "the name of its first block stands for its third one now"
    heard.hear(1, removed([1]), removed([1]), removed([2]), removed([1]))
    assert heard.index.size() == 0


def test_a_hash_that_comes_to_stand_for_other_tokens_is_the_newer_one(heard: Heard) -> None:
    """dynamo PR#6569: an engine's hash is a name; what it was last said to be is what counts."""
    heard.hear(1, stored([1], tokens(1)), stored([1], tokens(2)))
    assert (heard.blocks(tokens(1)), heard.blocks(tokens(2))) == ({}, {1: 1})
    heard.hear(1, removed([1]), removed([1]))
    assert heard.index.size() == 0


# --- chains ---


def test_the_blocks_of_one_event_are_a_chain_behind_its_parent(heard: Heard) -> None:
    """dynamo#659: every block of the event got the event's parent, so that no chain was longer than one."""
    heard.hear(1, stored([1], tokens(1)), stored([2, 3, 4], tokens(2, 3, 4), parent=1))
    assert heard.blocks(PROMPT) == {1: 4}
    assert [heard.blocks(tokens(1, other)) for other in (3, 4)] == [{1: 1}, {1: 1}]


def test_blocks_are_matched_from_the_start_only(heard: Heard) -> None:
    """vllm-project/aibrix#917: a worker that held the second half of the prompt was preferred."""
    heard.hear(1, stored([2], tokens(2)))
    heard.hear(2, stored([1], tokens(1)))
    assert heard.blocks(tokens(1, 2)) == {2: 1}


def test_the_same_tokens_further_on_in_a_prompt_are_other_blocks(heard: Heard) -> None:
    """vllm-project/aibrix#917: a block's identity is everything before it as well."""
    heard.hear(1, stored([1, 2, 3], tokens(7, 7, 8)))
    assert heard.blocks(tokens(7, 7, 8)) == {1: 3}
    assert heard.blocks(tokens(7, 8)) == {1: 1}
    assert heard.blocks(tokens(8)) == {}


@pytest.mark.parametrize(("one", "other"), [(16, 64), (16, 256), (1, 32)])
def test_workers_of_different_block_sizes_score_alike_in_tokens(heard: Heard, one: int, other: int) -> None:
    """vllm-project/vllm PR#26296, PR#50118, LMCache PR#5076: context parallelism and offloading change the size."""
    prompt = list(range(512))
    for lane, size in ((1, one), (2, other)):
        heard.hear(lane, stored(list(range(512 // size)), prompt))
    scores = {lane: heard.blocks(prompt, block_size=size).get(lane, 0) * size for lane, size in ((1, one), (2, other))}
    assert scores == {1: 512, 2: 512}


def test_a_partial_block_shorter_than_the_others_costs_nothing_else(heard: Heard) -> None:
    """vllm-project/vllm#44451: sizes change within one worker too, where a block is promoted from partial to full."""
    heard.hear(1, stored([1], list(range(8))), stored([2], list(range(8, 12)), parent=1))
    report = heard.hear(1, removed([2]), stored([3], list(range(8, 16)), parent=1))
    assert (report.removed, report.stored) == (1, 1)
    assert heard.blocks(list(range(16)), block_size=8) == {1: 2}


def test_a_store_that_skips_blocks_of_its_tokens_is_left_out_and_counted(heard: Heard) -> None:
    """vllm-project/vllm#44451: hashes of null blocks are missing, so which tokens belong to which is not told."""
    sparse = stored([1, 3], tokens(1, 3), block_size=2) | {"token_ids": tokens(1, 2, 3)}
    report = heard.hear(1, sparse, stored([9], tokens(9)))
    assert (report.stored, report.unindexed, report.rejected) == (1, 2, 0)
    assert heard.index.blocks(1) == 1


def test_a_sliding_windows_removals_spare_the_full_attention_blocks(heard: Heard) -> None:
    """vllm-project/vllm#49537, #43258: hybrid models announce equal hashes once for each cache group."""
    full = stored([1, 2], tokens(1, 2), group_idx=0, kv_cache_spec_kind="full_attention")
    window = stored([1, 2], tokens(1, 2), group_idx=1, kv_cache_spec_kind="sliding_window")
    heard.hear(1, full, window, removed([1], group_idx=1), removed([2], group_idx=1))
    assert heard.blocks(PROMPT) == {1: 2}
    heard.hear(1, removed([2], group_idx=0))
    assert heard.blocks(PROMPT) == {1: 1}


# --- predictions ---


def predicted(heard: Heard, *blocks: int, until: float = 10.0, lane: int = 1) -> None:
    heard.index.predict(lane, hash_blocks(tokens(*blocks), 2, BASE), until)


def overlap(heard: Heard, *blocks: int, now: float = 0.0) -> Overlap:
    return heard.index.match(hash_blocks(tokens(*blocks), 2, BASE), now).get(1, Overlap())


def test_a_prediction_never_takes_what_is_confirmed(heard: Heard) -> None:
    """llm-d/llm-d-router, speculative entries: one that ran out took the engine's own announcement with it."""
    heard.hear(1, stored([1, 2], tokens(1, 2)))
    predicted(heard, 1, 2, 3, until=5.0)
    assert heard.index.expire(6.0) == 1
    assert overlap(heard, 1, 2, 3, now=6.0) == Overlap(device=2)


def test_a_prediction_beyond_the_cap_never_takes_what_is_confirmed() -> None:
    """vllm-project/production-stack#687: the cap is on guesses."""
    heard = Heard().add(1, prediction_limit=2)
    heard.hear(1, stored([1, 2, 3], tokens(1, 2, 3)))
    for number in range(10, 20):
        predicted(heard, number, until=math.inf)
    assert overlap(heard, 1, 2, 3) == Overlap(device=3)
    assert heard.index.blocks(1) == 5


def test_a_confirmed_prediction_lives_as_long_as_the_engine_says(heard: Heard) -> None:
    """dynamo PR#8276: a short-lived entry at dispatch bridges the time until the event, and then gives way to it."""
    predicted(heard, 1, 2, until=1.0)
    assert overlap(heard, 1, 2) == Overlap(predicted=2)
    heard.hear(1, stored([1, 2], tokens(1, 2)))
    assert overlap(heard, 1, 2, now=100.0) == Overlap(device=2)
    assert heard.index.expire(100.0) == 0
    heard.hear(1, removed([2]))
    assert overlap(heard, 1, 2) == Overlap(device=1), "not predicted again, though its time had not been up"


def test_a_prediction_that_nothing_confirms_ends(heard: Heard) -> None:
    """dynamo PR#8276: the request may have failed; a guess must not attract traffic for good."""
    predicted(heard, 1, 2, until=5.0)
    assert overlap(heard, 1, 2, now=4.9) == Overlap(predicted=2)
    assert overlap(heard, 1, 2, now=5.0) == Overlap()
    assert heard.index.expire(5.0) == 2
    assert heard.index.size() == 0


def test_a_clear_ends_predictions_made_before_it(heard: Heard) -> None:
    """llm-d-kv-cache#537: what was predicted from the cache's state before the clear is not there after it."""
    predicted(heard, 1, 2)
    heard.hear(1, cleared())
    assert overlap(heard, 1, 2) == Overlap()
