"""Preble's E2 against figures made by hand; a prefill rate of 10,000 tokens per second."""

import pytest

from simulator.rivals.hand_made import ENDS, answered, asked, candidate, choices, decision, fleet, tokens, totals
from warmroute.block import Overlap
from warmroute.policy import Candidate
from warmroute.simulator.rivals.preble import AnswerTimes, PreblePolicy, RecentWork, ResidentBlocks
from warmroute.worker import LaneKey

FIRST_DECODE_S = 45 * 0.15


def test_work_counts_for_three_minutes() -> None:
    work = RecentWork()
    work.add(0.0, 5.0)
    work.add(100.0, 7.0)
    assert work.within(179.0) == (12.0, 2)
    assert work.within(180.0) == (7.0, 1)
    work.add(280.0, 1.0)
    assert work.within(280.0) == (1.0, 1)
    work.forget(280.0)
    assert work.within(280.0) == (1.0, 1)
    work.forget(500.0)
    assert work.within(500.0) == (0.0, 0)


class TestExplore:
    def test_least_recent_load_then_prefill(self) -> None:
        policy, workers = PreblePolicy(), fleet(0, 0)
        policy.decided(decision(workers, 0, tokens(1)))
        cold = [candidate(0), candidate(1, overlap=Overlap(device=25))]
        # Sent to the first: 1,600 tokens to prefill, 45 to generate at 0.15 s.
        assert totals(policy, asked(tokens(2)), cold) == pytest.approx([0.16 + FIRST_DECODE_S + 0.16, 0.12])
        later = totals(policy, asked(tokens(2), now=180.0), cold)
        assert later == pytest.approx([0.16, 0.12])

    def test_up_to_a_half_it_explores(self) -> None:
        policy = PreblePolicy()
        half = [candidate(0, overlap=Overlap(device=50)), candidate(1)]
        policy.decided(decision(half, 0, tokens(1)))
        assert choices(policy, asked(tokens(1)), half) == {1}
        more = [candidate(0, overlap=Overlap(device=51)), candidate(1, overlap=Overlap(device=10))]
        policy.decided(decision(more, 1, tokens(2)))
        assert choices(policy, asked(tokens(1)), more) == {0}

    def test_what_would_have_to_go_is_paid_for(self) -> None:
        # Room for 50 blocks of 64. Three requests with the same 25, one with 25 others; then 25 new ones: the oldest,
        # with 3 hits each of 4 requests, have to go: 25 x 3 / 4 x 64 / 10,000 s.
        policy = PreblePolicy()
        workers = [candidate(0, capacity_blocks=200), candidate(1, capacity_blocks=200)]
        for text in (1, 1, 1, 2):
            policy.decided(decision(workers, 0, tokens(text)))
        terms = policy.costs(asked(tokens(3)), workers, None)[0].terms  # type: ignore[arg-type]
        assert terms["eviction_s"] == pytest.approx(25 * 3 / 4 * 64 / 10_000)
        assert policy.costs(asked(tokens(3)), workers, None)[1].terms["eviction_s"] == 0.0  # type: ignore[arg-type]

    def test_nothing_has_to_go_while_there_is_room(self) -> None:
        policy, workers = PreblePolicy(), [candidate(0, capacity_blocks=201)]
        policy.decided(decision(workers, 0, tokens(1)))
        assert policy.costs(asked(tokens(3)), workers, None)[0].terms["eviction_s"] == 0.0  # type: ignore[arg-type]


class TestResidentBlocks:
    def test_tails_go_before_heads_and_the_oldest_first(self) -> None:
        resident = ResidentBlocks()
        resident.use([1, 2, 3], 0.0, 4)
        resident.use([1, 7, 8], 1.0, 4)
        assert len(resident) == 4  # 3 is gone; in order 2, 8, 7, 1
        assert [resident.hits_lost(blocks, 1.0) for blocks in (0, 1, 3, 4, 9)] == [0, 1, 3, 5, 5]

    def test_hits_end_with_the_window(self) -> None:
        resident = ResidentBlocks()
        resident.use([1], 0.0, 9)
        resident.use([1], 10.0, 9)
        assert resident.hits_lost(1, 189.0) == 2
        assert resident.hits_lost(1, 190.0) == 0
        resident.use([1], 200.0, 9)
        assert resident.hits_lost(1, 200.0) == 1


class TestExploit:
    def loaded(self, policy: PreblePolicy, position: int, times: int, workers: list[Candidate]) -> None:
        for number in range(times):
            policy.decided(decision(workers, position, tokens(1000 + number)))

    def test_the_holder_of_the_longest_match_of_several_the_one_with_less_load(self) -> None:
        policy = PreblePolicy()
        plain = fleet(0, 0, 0)
        self.loaded(policy, 0, 3, plain)
        self.loaded(policy, 1, 2, plain)
        self.loaded(policy, 2, 1, plain)
        held = Overlap(device=60)
        workers = [candidate(0, overlap=held), candidate(1, overlap=held), candidate(2, overlap=Overlap(device=59))]
        assert choices(policy, asked(tokens(1)), workers) == {1}
        assert choices(policy, asked(tokens(1)), [candidate(5, overlap=held), candidate(6, overlap=held)]) == {0, 1}

    def test_what_it_sent_counts_at_once(self) -> None:
        workers = [candidate(0), candidate(1, overlap=Overlap(predicted=80))]
        assert choices(PreblePolicy(), asked(tokens(1)), workers) == {1}

    def test_above_the_bound_the_prefix_is_replicated(self) -> None:
        workers = [candidate(0, overlap=Overlap(device=90)), candidate(1)]
        for times, expected in ((15, {0}), (16, {1})):
            policy = PreblePolicy()
            self.loaded(policy, 0, times, fleet(0, 0))
            self.loaded(policy, 1, 1, fleet(0, 0))
            assert choices(policy, asked(tokens(1)), workers) == expected


class TestAnswerTimes:
    def test_mean_length_and_median_time(self) -> None:
        times, lane = AnswerTimes(), LaneKey(0)
        assert times.decode_s(lane) == pytest.approx(FIRST_DECODE_S)
        workers = fleet(0)
        times.learn(lane, answered(decision(workers, 0), first_byte_at=1.0, ended_at=2.0, output_tokens=21))  # 0.05 s
        times.learn(lane, answered(decision(workers, 0), first_byte_at=1.0, ended_at=1.4, output_tokens=41))  # 0.01 s
        assert times.decode_s(lane) == pytest.approx(31 * 0.05)  # of 0.15, 0.05, 0.01
        assert times.decode_s(LaneKey(1)) == pytest.approx(31 * 0.15)

    def test_failures_teach_nothing(self) -> None:
        times, lane = AnswerTimes(), LaneKey(0)
        for end in ENDS[1:]:
            times.learn(lane, end(decision(fleet(0), 0)))
        assert times.decode_s(lane) == pytest.approx(FIRST_DECODE_S)
