"""The parts that rivals are made of: ring, LRU of blocks, counts of their own requests."""

from collections import Counter

import pytest

from simulator.rivals.hand_made import ENDS, candidate, decision, first_byte, fleet, tokens
from warmroute.block import Namespace, hash_blocks
from warmroute.simulator.rivals.block_lru import BlockLru
from warmroute.simulator.rivals.hash_ring import HashRing, text_key
from warmroute.simulator.rivals.in_flight import ActiveBlocks, Prefilling
from warmroute.simulator.rivals.prompt_blocks import PromptBlocks, leading_hash
from warmroute.worker import LaneKey

A, B = LaneKey(0), LaneKey(1)


class TestRing:
    def test_keys_are_spread_over_all_workers(self) -> None:
        ring, workers = HashRing(), fleet(0, 0, 0, 0)
        met = Counter(next(ring.walk(text_key(str(number)), workers)) for number in range(2000))
        assert all(350 < times < 650 for times in met.values()), met

    def test_a_walk_meets_everybody_once(self) -> None:
        ring, workers = HashRing(), fleet(0, 0, 0, 0, 0)
        assert sorted(ring.walk(text_key("k"), workers)) == [0, 1, 2, 3, 4]

    def test_without_a_worker_only_its_keys_move_and_to_the_next_on_their_walk(self) -> None:
        ring, workers = HashRing(), fleet(0, 0, 0, 0)
        for number in range(300):
            before = list(ring.walk(text_key(str(number)), workers))
            after = next(ring.walk(text_key(str(number)), workers[:3]))
            assert after == (before[0] if before[0] != 3 else before[1])

    def test_places_are_the_same_in_every_process(self) -> None:
        assert text_key("session-1") == 0xACE763D42CBD49AE


class TestBlockLru:
    def test_counts_what_each_lane_was_sent_up_to_the_first_unknown_block(self) -> None:
        index = BlockLru()
        index.add(A, [1, 2, 3, 4], 10)
        index.add(B, [1, 2], 10)
        assert index.matched([1, 2, 3, 9, 4]) == {A: 3, B: 2}
        assert index.matched([9, 1]) == {}

    def test_a_lane_that_lost_the_head_still_counts_where_another_has_it(self) -> None:
        index = BlockLru()
        index.add(A, [1, 2, 3], 2)
        assert index.matched([1, 2, 3]) == {}
        index.add(B, [1], 2)
        assert index.matched([1, 2, 3]) == {A: 2, B: 1}

    def test_what_was_sent_again_stays_longest(self) -> None:
        index = BlockLru()
        index.add(A, [1, 2, 3], 3)
        index.add(A, [1], 3)
        index.add(A, [4], 3)
        assert [block for block in (1, 2, 3, 4) if index.matched([block])] == [1, 3, 4]
        assert index.size(A) == 3


class TestPromptBlocks:
    def test_are_the_routers_own_hashes(self) -> None:
        ids, blocks = tokens(1, 100), PromptBlocks()
        assert list(blocks.of(ids)) == hash_blocks(ids, 16, Namespace()).to_list()
        assert list(blocks.of(ids, 64)) == hash_blocks(ids, 64, Namespace()).to_list()
        assert len(blocks.of(tokens(2, 15))) == 0
        assert len(blocks.of(None)) == 0

    def test_a_leading_hash_looks_no_further(self) -> None:
        assert leading_hash(tokens(1, 300), 256) == leading_hash(tokens(1, 256) + [5], 256)
        assert leading_hash(tokens(1, 9), 256) != leading_hash(tokens(1, 10), 256)


class TestOwnRequests:
    @pytest.mark.parametrize("end", ENDS)
    def test_a_prompt_counts_until_its_first_byte_or_its_end(self, end) -> None:  # type: ignore[no-untyped-def]
        counts, workers = Prefilling(), [candidate(0), candidate(1)]
        first, second = decision(workers, 0), decision(workers, 0)
        counts.add(first, 500)
        counts.add(second, 70)
        assert (counts.tokens(A), counts.tokens(B)) == (570, 0)
        first_byte(first)
        assert counts.tokens(A) == 70
        end(second)
        counts.settled(second)
        assert counts.tokens(A) == 0

    def test_shared_blocks_count_once_and_until_the_last_request_ends(self) -> None:
        active = ActiveBlocks()
        active.add(A, [1, 2, 3])
        active.add(A, [1, 2, 4])
        assert active.count(A) == 4
        assert active.count_with(A, [1, 2, 5, 6]) == 6
        assert active.count_with(A, [1, 2, 3]) == 4
        assert active.count_with(B, [1, 2, 3]) == 3
        active.remove(A, [1, 2, 3])
        assert active.count(A) == 3
        active.remove(A, [1, 2, 4])
        assert active.count(A) == 0
