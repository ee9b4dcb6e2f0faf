"""What each policy prefers, on hand-made candidates."""

import random
from collections import Counter

import pytest

from warmroute.block import Overlap
from warmroute.policy import POLICIES, Candidate, PolicyRequest, cheapest
from warmroute.policy.weighted import WeightedPolicy
from warmroute.worker import Lane, LaneKey, Load, Rates, Worker, WorkerKey, WorkerSpec

_RATES = Rates(prefill_tokens_per_s=10_000.0, decode_slope_s=0.001)


def candidate(
    held: int = 0, requests: int = 0, queued_tokens: int = 0, decoding: int = 0, waiting: int = 0, rate: float = 1e4
) -> Candidate:
    worker = Worker(WorkerKey(0), WorkerSpec("http://w:1"), (lane := Lane(LaneKey(0)),))
    load = Load(requests, decoding, queued_tokens, waiting)
    rates = Rates(rate, _RATES.decode_slope_s, 0.01)
    return Candidate(worker, lane, load, rates, Overlap(device=held), 16, 1601, 16 * held)


def choose(policy: str, *candidates: Candidate, sequence: int = 0, seed: int = 0) -> int:
    rng = random.Random(seed)
    return cheapest(POLICIES[policy]().costs(PolicyRequest(1601, 100.0, sequence), candidates, rng), rng)


def test_round_robin_takes_turns() -> None:
    fleet = [candidate() for _ in range(3)]
    assert [choose("round-robin", *fleet, sequence=i) for i in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_random_reaches_everybody_and_depends_on_the_seed_alone() -> None:
    fleet = [candidate(held=100), candidate(requests=50), candidate()]
    chosen = [choose("random", *fleet, seed=seed) for seed in range(300)]
    assert min(Counter(chosen).values()) > 60
    assert chosen == [choose("random", *fleet, seed=seed) for seed in range(300)]


def test_least_loaded_looks_at_requests_only() -> None:
    assert choose("least-loaded", candidate(held=100, requests=3), candidate(requests=2)) == 1


def test_longest_prefix_looks_at_the_overlap_first_and_at_load_among_equals() -> None:
    assert choose("longest-prefix", candidate(held=100, requests=90), candidate(held=99)) == 0
    assert choose("longest-prefix", candidate(held=7, requests=2), candidate(held=7, requests=1), candidate()) == 1


def test_weighted_is_blocks_saved_against_requests_ahead() -> None:
    policy = WeightedPolicy(prefill_cost_saved=2.0, queue_latency_penalty=30.0)
    cost = policy.costs(PolicyRequest(1601, 1.0, 0), [candidate(held=40, requests=3)], random.Random(0))[0]
    assert cost.total == -(40 * 2.0 - 3 * 30.0)
    assert dict(cost.terms) == {"saved": -80.0, "queue": 90.0}


@pytest.mark.parametrize("policy", ["warmroute", "weighted", "longest-prefix"])
def test_equal_tokens_cost_the_same_in_blocks_of_any_size(policy: str) -> None:
    small, large = candidate(held=80), candidate(held=80)
    large.overlap, large.block_size = Overlap(device=20), 64
    costs = POLICIES[policy]().costs(PolicyRequest(1601, 100.0, 0), [small, large], random.Random(0))
    assert costs[0] == costs[1]


class TestCostModel:
    def terms(self, **load: float) -> dict[str, float]:
        one = candidate(**load)  # type: ignore[arg-type]
        policy = POLICIES["warmroute"]()
        return dict(policy.costs(PolicyRequest(1601, 100.0, 0), [one], random.Random(0))[0].terms)

    def test_terms_are_the_seconds_that_they_say(self) -> None:
        assert self.terms(held=100, requests=5, queued_tokens=20_000, decoding=3) == pytest.approx(
            {
                "prefill_s": 1 / 10_000,
                "queue_s": 2.0,
                "room_s": 0.0,
                "decode_s": 2 * 100 * 0.001 * 5 / 4,
                "stall_s": (1 + 5 / 4) / 10_000,
            }
        )

    def test_what_stands_before_a_token_is_attended_to(self) -> None:
        """1,601 tokens, the first 800 held: the 801 others attend to 801 * 800 + 801 * 801 / 2; a context of 1,000."""
        one = candidate(held=50, queued_tokens=1_000)
        one.rates = Rates(1e4, 0.001, 0.01, context_tokens=1_000.0)
        one.load.queued_attended = 500_000
        terms = POLICIES["warmroute"]().costs(PolicyRequest(1601, 100.0, 0), [one], random.Random(0))[0].terms
        assert terms["prefill_s"] == pytest.approx((801 + (801 * 800 + 801 * 801 // 2) / 1_000) / 1e4)
        assert terms["queue_s"] == pytest.approx(0.15)

    def test_who_waits_in_the_engine_waits_for_the_ends_of_those_who_run(self) -> None:
        """30 requests, 6 of them waiting: 24 run, an answer of theirs takes 100 steps of 10 + 24 ms."""
        assert self.terms(requests=30, decoding=24, waiting=6)["room_s"] == pytest.approx(6 * 100 * 0.034 / 24)
        assert self.terms(requests=2, decoding=0, waiting=6)["room_s"] == pytest.approx(6 * 100 * 0.011)

    def test_a_faster_worker_is_worth_a_prefill(self) -> None:
        assert choose("warmroute", candidate(held=10, rate=1e4), candidate(rate=1e5)) == 1

    def test_one_block_does_not_beat_an_idle_worker(self) -> None:
        assert choose("warmroute", candidate(held=1, requests=3, queued_tokens=4000), candidate()) == 1

    def test_a_long_prefix_beats_a_little_load(self) -> None:
        assert choose("warmroute", candidate(held=100, requests=1, decoding=1), candidate()) == 0


def test_equals_are_told_apart_by_chance() -> None:
    fleet = [candidate(), candidate(), candidate()]
    assert {choose("warmroute", *fleet, seed=seed) for seed in range(40)} == {0, 1, 2}
