"""AIBrix prefix-cache."""

from simulator.rivals.hand_made import asked, choices, decision, fleet, tokens
from warmroute.simulator.rivals.aibrix import TABLE_CHUNKS, AibrixPrefixCachePolicy, PrefixTable
from warmroute.worker import LaneKey

A, B = LaneKey(0), LaneKey(1)


def test_the_table_is_as_large_as_the_published_one() -> None:
    assert TABLE_CHUNKS == 200_000 * 4 // 64 == 12_500


class TestTable:
    def test_percents_are_whole_and_of_the_leading_part(self) -> None:
        table = PrefixTable()
        table.add([1, 2, 3], A, 0.0)
        table.add([1], B, 0.0)
        assert table.percents([1, 2, 9], (A, B), 0.0) == {A: 66, B: 33}
        assert table.percents([1, 2, 9], (B,), 0.0) == {B: 33}
        assert table.percents([9, 1], (A, B), 0.0) == {}

    def test_the_least_recently_sent_leaves_when_it_is_full(self) -> None:
        table = PrefixTable(most_chunks=3)
        table.add([1, 2, 3], A, 0.0)
        table.add([1], B, 1.0)
        table.add([4], A, 2.0)
        assert len(table) == 3
        assert table.percents([2], (A,), 2.0) == {}
        assert table.percents([1], (A, B), 2.0) == {A: 100, B: 100}

    def test_an_entry_ends_after_twenty_minutes(self) -> None:
        table = PrefixTable()
        table.add([1], A, 0.0)
        assert table.percents([1], (A,), 1199.0) == {A: 100}
        assert table.percents([1], (A,), 1200.0) == {}
        table.add([2], A, 1200.0)
        assert len(table) == 1


class TestPolicy:
    def test_the_best_match_that_is_not_too_busy(self) -> None:
        policy, text = AibrixPrefixCachePolicy(), tokens(1)
        policy.decided(decision(fleet(0, 0, 0), 0, text))
        policy.decided(decision(fleet(0, 0, 0), 1, text[:800]))
        # Mean 4.33, deviation of the sample 4.04: 8 are not above 8.37.
        assert choices(policy, asked(text), fleet(8, 5, 0)) == {0}
        # Mean 3, deviation 4.36: 8 are above 7.36, so half a match does.
        assert choices(policy, asked(text), fleet(8, 1, 0)) == {1}

    def test_equal_matches_go_by_requests_then_by_chance(self) -> None:
        policy, text = AibrixPrefixCachePolicy(), tokens(1)
        for position in (0, 1):
            policy.decided(decision(fleet(0, 0, 0), position, text))
        assert choices(policy, asked(text), fleet(3, 2, 0)) == {1}
        assert choices(policy, asked(text), fleet(2, 2, 0)) == {0, 1}

    def test_while_loads_are_more_than_eight_apart_only_the_least_loaded_are_matched(self) -> None:
        policy, text = AibrixPrefixCachePolicy(), tokens(1)
        policy.decided(decision(fleet(0, 0, 0), 1, text))
        assert choices(policy, asked(text), fleet(8, 8, 0)) == {1}
        assert choices(policy, asked(text), fleet(9, 9, 0)) == {2}
        policy.decided(decision(fleet(0, 0, 0), 2, text[:160]))
        assert choices(policy, asked(text), fleet(9, 0, 0)) == {1}

    def test_nobody_was_sent_it_the_fewest_requests(self) -> None:
        assert choices(AibrixPrefixCachePolicy(), asked(tokens(1)), fleet(2, 1, 1)) == {1, 2}

    def test_a_match_below_one_percent_is_a_match(self) -> None:
        policy = AibrixPrefixCachePolicy()
        policy.decided(decision(fleet(0, 0), 1, tokens(1, 16)))
        assert choices(policy, asked(tokens(1, 16) + tokens(2, 3184)), fleet(0, 0)) == {1}
