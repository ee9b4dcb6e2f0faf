"""TensorRT-LLM's events: what the list says, and what the index believes afterwards."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kv_event.polled_json import WINDOW, answer, created, diff, event, removed, stored, stored_block, updated
from warmroute.block import Namespace, Overlap, Tier, hash_blocks
from warmroute.errors import UndecodableFrame
from warmroute.kv_event import AllBlocksCleared, ApplyReport, BlockRemoved, BlockStored, EventBatch, Gap, apply_batch
from warmroute.kv_event.listener import Position
from warmroute.kv_event.messages import block_key
from warmroute.kv_event.tensorrt_llm import PolledEventReader, PolledEvents, split
from warmroute.prefix_index import PrefixIndex

_LANE = 1
_SIZE = 4
_A, _B, _C = [1] * _SIZE, [2] * _SIZE, [3] * _SIZE


class Follower:
    """A reader with an index behind it, as the listener has."""

    def __init__(self, reader: PolledEventReader | None = None) -> None:
        self.reader = reader or PolledEventReader()
        self.index = PrefixIndex()
        self.index.add_worker(_LANE, 0)

    def take(self, *events: dict[str, Any]) -> PolledEvents:
        return self.apply(answer(*events))[0]

    def apply(self, payload: bytes) -> tuple[PolledEvents, ApplyReport]:
        polled = self.reader.read(split(payload))
        batch = EventBatch(timestamp=0.0, rank=None, events=polled.events, rejected=[])
        report = apply_batch(self.index, _LANE, batch)
        self.index.check_integrity()
        return polled, report

    def overlap(self, tokens: Sequence[int], namespace: Namespace | None = None, **keys: Any) -> Overlap:
        hashes = hash_blocks(tokens, _SIZE, namespace or Namespace(), **keys)
        return self.index.match(hashes, 0.0).get(_LANE, Overlap())


def begun(*events: dict[str, Any]) -> Follower:
    """Three blocks A-B-C of hashes 1, 2, 3 and whatever `events` say after that."""
    follower = Follower()
    chain = stored(None, stored_block(1, _A), stored_block(2, _B), stored_block(3, _C))
    follower.take(event(0, created()), event(1, chain), *events)
    return follower


def test_blocks_chain_one_after_the_other() -> None:
    follower = begun(event(2, stored(3, stored_block(4, _A), stored_block(5, _B))))
    assert follower.overlap([*_A, *_B, *_C, *_A, *_B]) == Overlap(device=5)
    assert follower.overlap(_B) == Overlap()
    assert follower.reader.is_complete


def test_removed_blocks_are_gone() -> None:
    follower = begun(event(2, removed(3, 99, 2)))
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=1)


def test_a_partial_last_block_is_left_out_and_its_removal_takes_nothing() -> None:
    follower = begun()
    polled = follower.take(event(2, stored(3, stored_block(4, _A), stored_block(5, [2, 2]))))
    assert polled.unindexed == 1
    assert follower.overlap([*_A, *_B, *_C, *_A, *_B]) == Overlap(device=4)
    polled = follower.take(event(3, removed(5)), event(4, stored(4, stored_block(6, _B))))
    assert polled.rejected == []
    assert follower.overlap([*_A, *_B, *_C, *_A, *_B]) == Overlap(device=5)


def test_until_the_block_size_is_known_single_blocks_wait() -> None:
    follower = Follower()
    first = follower.take(
        event(0, created()),
        event(1, stored(None, stored_block(1, _A))),
        event(2, stored(None, stored_block(7, [9, 9]))),
    )
    assert first.events == []
    then = follower.take(event(3, stored(1, stored_block(2, _B), stored_block(3, [3]))))
    assert then.unindexed == 2
    assert follower.overlap([*_A, *_B]) == Overlap(device=2)
    assert follower.index.blocks(_LANE) == 2


def test_a_block_that_is_continued_tells_the_size() -> None:
    follower = Follower()
    follower.take(event(0, stored(None, stored_block(7, [9, 9]))), event(1, stored(None, stored_block(1, _A))))
    assert follower.index.blocks(_LANE) == 0
    follower.take(event(2, stored(1, stored_block(2, _B))), event(3, stored(2, stored_block(3, [3]))))
    assert follower.overlap([*_A, *_B]) == Overlap(device=2)
    assert follower.index.blocks(_LANE) == 2


def test_a_block_removed_before_the_size_is_known_does_not_come_back() -> None:
    follower = Follower()
    follower.take(event(0, created()), event(1, stored(None, stored_block(1, _A))), event(2, removed(1)))
    follower.take(event(3, stored(None, stored_block(2, _B), stored_block(3, _C))))
    assert follower.overlap(_A) == Overlap()
    assert follower.overlap([*_B, *_C]) == Overlap(device=2)


def test_blocks_that_wait_are_bounded() -> None:
    follower = Follower()
    follower.take(*(event(i, stored(None, stored_block(i, [i] * _SIZE))) for i in range(1500)))
    follower.take(event(1500, stored(None, stored_block(-1, _A), stored_block(-2, _B))))
    assert follower.index.blocks(_LANE) == 1024 + 2
    assert follower.overlap([1499] * _SIZE) == Overlap(device=1)
    assert follower.overlap([0] * _SIZE) == Overlap()


@pytest.mark.parametrize("priority", [None, diff(35, 50)])
def test_a_block_moves_between_tiers(priority: dict[str, Any] | None) -> None:
    follower = begun(event(2, updated(2, diff(0, 1), priority)))
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=2, host=1)
    follower.take(event(3, updated(2, diff(1, 0), priority)))
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=3)
    follower.take(event(4, updated(3, diff(0, 1))), event(5, removed(3)))
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=2)


@pytest.mark.parametrize("level", [None, {"type": "event_diff"}, diff(0, 0)])
def test_a_diff_that_says_nothing_moves_nothing(level: dict[str, Any] | None) -> None:
    follower = begun(event(2, updated(2, level, diff(1, 2))), event(3, updated(77, diff(0, 1))))
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=3)


@pytest.mark.parametrize(("level", "overlap"), [(1, Overlap(device=2, host=1)), (2, Overlap(device=2, disk=1))])
def test_blocks_stored_below_the_gpu_are_removed_from_there(level: int, overlap: Overlap) -> None:
    follower = Follower()
    chain = stored(None, stored_block(1, _A), stored_block(2, _B, level=level), stored_block(3, _C))
    follower.take(event(0, created()), event(1, chain))
    assert follower.overlap([*_A, *_B, *_C]) == overlap
    follower.take(event(2, removed(2)))
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=1)
    assert follower.index.blocks(_LANE) == 2


def test_only_the_largest_window_counts() -> None:
    follower = Follower()
    follower.take(
        event(0, created(), window=512),
        event(1, created(), window=WINDOW),
        event(2, stored(None, stored_block(1, _A), stored_block(2, _B)), window=512),
        event(3, stored(None, stored_block(1, _A), stored_block(2, _B)), window=WINDOW),
        event(4, removed(2), window=512),
    )
    assert follower.overlap([*_A, *_B]) == Overlap(device=2)
    follower.take(event(5, removed(2)))
    assert follower.overlap([*_A, *_B]) == Overlap(device=1)


def test_a_late_joiner_that_hears_a_larger_window_drops_the_smaller_ones_blocks() -> None:
    follower = Follower()
    follower.take(event(7, stored(None, stored_block(1, _A), stored_block(2, _B)), window=512))
    follower.take(event(8, stored(None, stored_block(5, _B), stored_block(6, _C))))
    assert follower.overlap([*_A, *_B]) == Overlap()
    assert follower.overlap([*_B, *_C]) == Overlap(device=2)
    assert not follower.reader.is_complete


def test_missing_ids_are_gaps_per_rank() -> None:
    follower = Follower()
    polled = follower.take(
        event(0, created(), rank=0),
        event(0, created(), rank=1),
        event(1, stored(None, stored_block(1, _A), stored_block(2, _B)), rank=0),
        event(4, removed(9), rank=1),
        event(2, removed(9), rank=0),
    )
    assert polled.gaps == [Gap(1, 3)]
    assert polled.restarts == 0
    assert not follower.reader.is_complete
    assert follower.reader.position is None


def test_a_block_that_one_rank_drops_is_still_on_the_other() -> None:
    follower = Follower()
    chain = stored(None, stored_block(1, _A), stored_block(2, _B))
    follower.take(event(0, chain, rank=0), event(0, chain, rank=1), event(1, removed(2), rank=0))
    assert follower.overlap([*_A, *_B]) == Overlap(device=2)
    follower.take(event(1, removed(2), rank=1))
    assert follower.overlap([*_A, *_B]) == Overlap(device=1)


def test_a_late_join_is_a_gap() -> None:
    follower = Follower()
    assert follower.take(event(5, removed(1))).gaps == [Gap(0, 4)]
    assert not follower.reader.is_complete


@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_go_backwards_are_another_process(first: int) -> None:
    follower = begun(event(2, removed(3)))
    polled = follower.take(event(first, stored(None, stored_block(9, _C), stored_block(8, _A))))
    assert (polled.restarts, polled.gaps) == (1, [Gap(0, 0)] if first else [])
    assert follower.overlap([*_A, *_B]) == Overlap()
    assert follower.overlap([*_C, *_A]) == Overlap(device=2)
    assert follower.reader.is_complete != bool(first)


def test_a_restart_of_an_engine_with_two_ranks_and_windows_is_one() -> None:
    follower = Follower()
    begin = [event(i, created(), window, rank) for rank in (0, 1) for i, window in enumerate((512, WINDOW))]
    chain = stored(None, stored_block(1, _A), stored_block(2, _B))
    assert follower.take(*begin, event(2, chain, rank=0), event(2, chain, rank=1)).restarts == 0
    assert follower.take(*begin, event(2, chain, rank=1)).restarts == 1
    assert follower.overlap([*_A, *_B]) == Overlap(device=2)
    follower.take(event(3, removed(1, 2), rank=1))
    assert follower.index.blocks(_LANE) == 0


def test_a_restart_ends_what_a_gap_began() -> None:
    follower = Follower()
    follower.take(event(3, removed(1)))
    assert not follower.reader.is_complete
    follower.take(event(0, created()))
    assert follower.reader.is_complete


@pytest.mark.parametrize("wide", [2**64 - 1, -(2**63), 2**255 + 7, -(2**200), 2**64, "6f9a" * 16])
def test_hashes_of_any_width_are_taken(wide: Any) -> None:
    follower = Follower()
    follower.take(event(0, stored(None, stored_block(wide, _A), stored_block(5, _B))))
    follower.take(event(1, stored(wide, stored_block(6, _C))))
    assert follower.overlap([*_A, *_C]) == Overlap(device=2)
    follower.take(event(2, updated(wide, diff(0, 1))))
    assert follower.overlap([*_A, *_C]) == Overlap(device=1, host=1)
    follower.take(event(3, removed(wide)))
    assert follower.overlap([*_A, *_C]) == Overlap()


def test_images_separate() -> None:
    image = {"type": "mm_key", "hash": "ab" * 32, "start_offset": 2}
    follower = Follower()
    follower.take(event(0, stored(None, stored_block(1, _A, mm_keys=[image]), stored_block(2, _B, mm_keys=[]))))
    assert follower.overlap([*_A, *_B]) == Overlap()
    keys = [block_key([["ab" * 32, 2]]), None]
    assert follower.overlap([*_A, *_B], block_keys=keys) == Overlap(device=2)


def test_prompt_table_tokens_separate() -> None:
    block = stored_block(1, _A)
    block["tokens"][0]["token_extra_id"] = 5
    follower = Follower()
    follower.take(event(0, stored(None, block, stored_block(2, _B))))
    assert follower.overlap([*_A, *_B]) == Overlap()
    assert follower.overlap([*_A, *_B], block_keys=[block_key([[5, 0, 0, 0]]), None]) == Overlap(device=2)


def test_salts_and_adapters_separate() -> None:
    follower = Follower()
    follower.take(
        event(0, stored(None, stored_block(1, _A, cache_salt="s"), stored_block(2, _B, cache_salt="s"))),
        event(1, stored(None, stored_block(3, _B), stored_block(4, _C), lora_name="ad-1")),
        event(2, stored(None, stored_block(5, _C), stored_block(6, _C), lora_id=3)),
    )
    assert follower.overlap([*_A, *_B]) == Overlap()
    assert follower.overlap([*_A, *_B], Namespace(salt="s")) == Overlap(device=2)
    assert follower.overlap([*_B, *_C]) == Overlap()
    assert follower.overlap([*_B, *_C], Namespace("ad-1")) == Overlap(device=2)
    assert follower.overlap([*_C, *_C]) == Overlap()


def test_one_bad_event_does_not_cost_the_others() -> None:
    follower = begun()
    polled = follower.take(
        event(2, {"type": "defragmented"}),
        event(3, stored(3, {"type": "stored_block", "block_hash": 4, "tokens": "x"})),
        {"data": removed(1)},
        event(4, stored(3, stored_block(4, [1] * 9))),
        {},
        event(5, removed(3)),
    )
    assert len(polled.rejected) == 4
    assert polled.gaps == []
    assert follower.overlap([*_A, *_B, *_C]) == Overlap(device=2)


@pytest.mark.parametrize("payload", [b"", b"{}", b"null", b"[1, ", b"\xff", b"[" * 10_000])
def test_what_is_no_list_is_told(payload: bytes) -> None:
    with pytest.raises(UndecodableFrame):
        split(payload)


def test_an_empty_answer_says_nothing() -> None:
    assert split(b"[]") == split(b"[{}, {}]") == []


def test_saved_blocks_are_kept_where_the_next_event_follows() -> None:
    before = begun(event(2, updated(3, diff(0, 1))))
    position = before.reader.position
    assert position is not None
    assert (position.seq, position.complete) == (2, True)
    after = Follower(PolledEventReader(position))
    assert after.reader.position == position
    chain = BlockStored(block_hashes=[1, 2], token_ids=[*_A, *_B], block_size=_SIZE)
    on_host = BlockStored(block_hashes=[3], parent=2, token_ids=_C, block_size=_SIZE, tier=Tier.HOST)
    apply_batch(after.index, _LANE, EventBatch(timestamp=0, rank=None, events=[chain, on_host], rejected=[]))
    assert after.take(event(3, removed(3), rank=0)).dropped is None
    assert after.overlap([*_A, *_B, *_C]) == Overlap(device=2)
    # Block size and window are still known: a block that comes alone need not wait, one of a smaller window is none.
    after.take(event(4, stored(2, stored_block(6, _A)), rank=0), event(5, removed(1), window=512, rank=0))
    assert after.overlap([*_A, *_B, *_A]) == Overlap(device=3)
    assert after.reader.is_complete


@pytest.mark.parametrize(
    ("event_id", "data"), [(2, removed(9)), (4, removed(9)), (0, created()), (3, created()), (9, removed(9))]
)
def test_saved_blocks_are_dropped_where_anything_else_comes(event_id: int, data: dict[str, Any]) -> None:
    follower = Follower(PolledEventReader(Position(2, WINDOW)))
    polled = follower.take(event(event_id, data))
    assert polled.restarts == 0
    assert polled.dropped is not None
    assert polled.events[0] == AllBlocksCleared()
    assert follower.reader.is_complete == (event_id == 0)


def test_an_incomplete_view_is_saved_as_such() -> None:
    before = Follower()
    before.take(event(3, stored(None, stored_block(1, _A), stored_block(2, _B))))
    position = before.reader.position
    assert position is not None
    assert not PolledEventReader(position).is_complete


def test_after_a_clear_of_the_lane_only_news_is_known() -> None:
    follower = begun()
    follower.index.clear(_LANE)
    follower.reader.begin_anew()
    polled = follower.take(event(2, stored(None, stored_block(7, _C))), event(3, removed(1)))
    assert (polled.gaps, polled.restarts) == ([], 0)
    assert follower.overlap(_C) == Overlap(device=1)
    assert not follower.reader.is_complete


_HASHES = st.integers(0, 6)
_DATA = st.one_of(
    st.builds(lambda h: removed(*h), st.lists(_HASHES, max_size=3)),
    st.builds(lambda h, old, new: updated(h, diff(old, new)), _HASHES, st.integers(0, 2), st.integers(0, 2)),
    st.builds(
        lambda start, n, level: stored(
            start - 1 if start else None,
            *(stored_block(h, [h] * _SIZE, level) for h in range(start, start + n)),
        ),
        st.integers(0, 4),
        st.integers(1, 3),
        st.integers(0, 2),
    ),
)


@given(st.lists(_DATA, max_size=30))
def test_tiers_agree_with_a_dictionary(steps: list[dict[str, Any]]) -> None:
    """Blocks 0, 1, 2, ... continue each other; each is stored while absent and after its parent, as in an engine."""
    follower = Follower()
    follower.take(event(0, stored(None, stored_block(100, [9] * _SIZE), stored_block(101, [9] * _SIZE))))
    tiers: dict[int, int] = {}
    for number, data in enumerate(steps, start=1):
        if data["type"] == "stored":
            known = {*tiers, None}
            if data["parent_hash"] not in known or any(block["block_hash"] in tiers for block in data["blocks"]):
                data = removed()
            tiers |= {block["block_hash"]: block["cache_level"] for block in data.get("blocks", ())}
        elif data["type"] == "removed":
            tiers = {h: level for h, level in tiers.items() if h not in data["block_hashes"]}
        elif tiers.get(data["block_hash"]) == data["cache_level"]["old_value"]:
            tiers[data["block_hash"]] = data["cache_level"]["new_value"]
        else:
            data = removed()
        follower.take(event(number, data))
    run = next((h for h in range(8) if h not in tiers), 8)
    device, host, disk = (sum(tiers[h] == level for h in range(run)) for level in range(3))
    found = follower.overlap([token for h in range(8) for token in [h] * _SIZE])
    assert found == Overlap(device=device, host=host, disk=disk)
    assert follower.index.blocks(_LANE) == 2 + len(tiers)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        st.lists,
        max_leaves=5,
    )
)
def test_any_json_is_survived(value: Any) -> None:
    """Whatever a field holds, the event is refused or taken; nothing else is raised."""
    follower = begun()
    for field in ("event_id", "window_size", "attention_dp_rank", "data"):
        follower.take(event(2, removed(3)) | {field: value})
    for data in (stored(value, stored_block(value, _A)), removed(value), updated(value, value), stored(1, value)):
        follower.take(event(5, data))


def test_an_event_of_each_kind_reads_as_its_message() -> None:
    polled = begun().take(event(2, removed(3)))
    assert polled.events == [BlockRemoved(block_hashes=[3])]
