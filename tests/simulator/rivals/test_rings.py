"""The rivals that hash: session-sticky, bounded-load-sticky, prefix-hash."""

from simulator.rivals.hand_made import asked, candidate, choices, choose, fleet, tokens
from warmroute.simulator.rivals.bounded_load_sticky import BoundedLoadStickyPolicy
from warmroute.simulator.rivals.hash_ring import HashRing
from warmroute.simulator.rivals.prefix_hash import PrefixHashPolicy
from warmroute.simulator.rivals.prompt_blocks import leading_hash
from warmroute.simulator.rivals.session_sticky import SessionStickyPolicy


class TestSessionSticky:
    def test_a_session_stays_and_sessions_are_spread(self) -> None:
        policy, workers = SessionStickyPolicy(), fleet(9, 0, 0, 0)
        placed = {name: choices(policy, asked(session=name), workers) for name in map(str, range(40))}
        assert all(len(each) == 1 for each in placed.values())
        assert set.union(*placed.values()) == {0, 1, 2, 3}

    def test_without_a_session_it_goes_round(self) -> None:
        policy, workers = SessionStickyPolicy(), fleet(0, 0, 0)
        assert [choose(policy, asked(sequence=each), workers) for each in range(5)] == [0, 1, 2, 0, 1]


class TestBoundedLoadSticky:
    def walk(self, ids: list[int], size: int) -> list[int]:
        return list(HashRing().walk(leading_hash(ids, 256), fleet(*[0] * size)))

    def test_equal_beginnings_go_to_one_worker(self) -> None:
        policy, workers = BoundedLoadStickyPolicy(), fleet(0, 0, 0, 0)
        beginning = tokens(1, 256)
        placed = {choose(policy, asked(beginning + tokens(rest, 400)), workers) for rest in range(2, 12)}
        assert placed == {self.walk(beginning, 4)[0]}

    def test_a_worker_at_the_bound_is_walked_past(self) -> None:
        # 13 in flight over 4 workers: at most ceil(1.25 x 14 / 4) = ceil(4.375) = 5 each.
        ids = tokens(3)
        first, second, third, fourth = self.walk(ids, 4)
        load = {first: 5, second: 5, third: 3, fourth: 0}
        workers = [candidate(key, load[key]) for key in range(4)]
        policy = BoundedLoadStickyPolicy()
        assert choose(policy, asked(ids), workers) == third
        workers[first].load.requests = 4
        assert choose(policy, asked(ids), workers) == first

    def test_a_prompt_that_is_not_known_goes_to_the_least_loaded(self) -> None:
        assert choices(BoundedLoadStickyPolicy(), asked(None), fleet(3, 1, 2)) == {1}


class TestPrefixHash:
    def own(self, ids: list[int], size: int) -> int:
        return next(HashRing(150).walk(leading_hash(ids, 256), fleet(*[0] * size)))

    def test_the_rings_worker_until_it_is_overloaded(self) -> None:
        # 10 in flight over 2: overloaded above 1.25 x 11 / 2 = 6.875.
        ids = tokens(5)
        own = self.own(ids, 2)
        workers = [candidate(key, 6 if key == own else 4) for key in range(2)]
        assert choices(PrefixHashPolicy(), asked(ids), workers) == {own}
        workers = [candidate(key, 7 if key == own else 3) for key in range(2)]
        assert choices(PrefixHashPolicy(), asked(ids), workers) == {1 - own}

    def test_then_the_least_loaded_not_the_next(self) -> None:
        ids = tokens(6)
        walk = list(HashRing(150).walk(leading_hash(ids, 256), fleet(0, 0, 0)))
        load = {walk[0]: 30, walk[1]: 5, walk[2]: 1}
        workers = [candidate(key, load[key]) for key in range(3)]
        assert choices(PrefixHashPolicy(), asked(ids), workers) == {walk[2]}

    def test_without_tokens_the_least_loaded(self) -> None:
        assert choices(PrefixHashPolicy(), asked(None), fleet(3, 1, 2)) == {1}
