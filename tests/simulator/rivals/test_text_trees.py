"""production-stack's prefixaware and Ray's prefix affinity."""

from simulator.rivals.hand_made import asked, candidate, choices, decision, fleet, tokens
from warmroute.simulator.rivals.production_stack import PrefixAwarePolicy
from warmroute.simulator.rivals.ray_prefix_affinity import NEVER_IMBALANCED, PrefixAffinityPolicy


class TestProductionStack:
    def test_an_unknown_prompt_goes_anywhere(self) -> None:
        assert choices(PrefixAwarePolicy(), asked(tokens(1)), fleet(0, 50, 0)) == {0, 1, 2}

    def test_any_holder_of_the_deepest_chunk_whatever_its_load(self) -> None:
        policy, workers = PrefixAwarePolicy(), fleet(0, 50, 0)
        shared = tokens(1, 320)
        policy.decided(decision(workers, 1, shared + tokens(2, 320)))
        policy.decided(decision(workers, 2, shared + tokens(3, 320)))
        assert choices(policy, asked(shared), workers) == {1, 2}
        assert choices(policy, asked(shared + tokens(2, 100)), workers) == {1}

    def test_chunks_of_32_tokens_stand_for_128_characters(self) -> None:
        policy, workers = PrefixAwarePolicy(), fleet(0, 0)
        policy.decided(decision(workers, 1, tokens(1, 64)))
        assert choices(policy, asked(tokens(1, 32) + tokens(2, 32)), workers) == {1}
        assert choices(policy, asked(tokens(1, 31) + tokens(2, 33)), workers) == {0, 1}

    def test_a_holder_that_is_not_asked_gives_way_to_one_of_less(self) -> None:
        policy, workers = PrefixAwarePolicy(), fleet(0, 0, 0)
        policy.decided(decision(workers, 0, tokens(1, 320)))
        policy.decided(decision(workers, 1, tokens(1, 64)))
        assert choices(policy, asked(tokens(1, 320)), workers[1:]) == {0}


class TestRay:
    def test_holders_of_a_tenth_or_more(self) -> None:
        policy, workers = PrefixAffinityPolicy(), fleet(0, 40)
        policy.decided(decision(workers, 1, tokens(1)))
        # A tenth of 1,600 tokens is 10 chunks of 16.
        assert choices(policy, asked(tokens(1, 160) + tokens(2, 1440)), workers) == {1}
        assert choices(policy, asked(tokens(1, 144) + tokens(2, 1456)), workers) == {0}

    def test_below_it_those_that_were_sent_least(self) -> None:
        policy, workers = PrefixAffinityPolicy(), fleet(9, 9, 9)
        policy.decided(decision(workers, 0, tokens(1, 320)))
        assert choices(policy, asked(tokens(5)), workers) == {1, 2}
        policy.decided(decision(workers, 1, tokens(2, 320)))
        policy.decided(decision(workers, 2, tokens(3, 160)))
        assert choices(policy, asked(tokens(5)), workers) == {2}

    def test_where_these_cannot_be_asked_everybody(self) -> None:
        policy, workers = PrefixAffinityPolicy(), fleet(0, 0, 0)
        policy.decided(decision(workers, 0, tokens(1, 320)))
        policy.decided(decision(workers, 1, tokens(2, 160)))
        policy.decided(decision(workers, 2, tokens(3, 160)))
        assert choices(policy, asked(tokens(5)), [candidate(0)]) == {0}

    def test_of_two_holders_the_shorter_queue(self) -> None:
        policy, workers = PrefixAffinityPolicy(), fleet(0, 3, 2)
        for position in (1, 2):
            policy.decided(decision(workers, position, tokens(1)))
        assert choices(policy, asked(tokens(1)), workers) == {2}

    def test_loads_count_only_above_the_threshold_and_it_is_infinite_unless_set(self) -> None:
        far = fleet(0, 11, 5)
        for threshold, expected in ((NEVER_IMBALANCED, {1}), (11.0, {1}), (10.0, {0, 2})):
            policy = PrefixAffinityPolicy(threshold)
            policy.decided(decision(far, 1, tokens(1)))
            assert choices(policy, asked(tokens(1)), far) == expected
