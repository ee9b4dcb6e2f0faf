"""SGLang's and vllm-router's cache_aware."""

from simulator.rivals.hand_made import asked, candidate, choices, decision, fleet, tokens
from warmroute.simulator.rivals.cache_aware import SGLANG, VLLM_ROUTER, CacheAwareOptions, CacheAwarePolicy


def policy(options: CacheAwareOptions = SGLANG) -> CacheAwarePolicy:
    return CacheAwarePolicy("sglang-cache-aware", options)


def test_the_published_defaults() -> None:
    assert (SGLANG.match_threshold, SGLANG.most_apart, SGLANG.most_times) == (0.3, 64.0, 1.5)
    assert (SGLANG.eviction_interval_s, SGLANG.tree_characters) == (60.0, 67_108_864)
    assert (VLLM_ROUTER.eviction_interval_s, VLLM_ROUTER.tree_characters) == (120.0, 33_554_432)


def test_a_new_text_goes_to_the_first_of_the_least_loaded() -> None:
    assert choices(policy(), asked(tokens(1)), fleet(2, 1, 1)) == {1}


def test_above_three_tenths_the_remembered_holder() -> None:
    tried, workers = policy(), fleet(0, 0, 30)
    tried.decided(decision(workers, 2, tokens(1)))
    # 1,600 tokens: 31 chunks of 16 are 0.31, 30 are 0.3, which is not above it.
    assert choices(tried, asked(tokens(1, 31 * 16) + tokens(9, 69 * 16)), workers) == {2}
    assert choices(tried, asked(tokens(1, 30 * 16) + tokens(9, 70 * 16)), workers) == {0}


def test_far_apart_loads_win_and_the_text_is_entered_there_too() -> None:
    tried, text = policy(), tokens(1)
    tried.decided(decision(fleet(0, 0), 1, text))
    apart = fleet(0, 65)
    assert choices(tried, asked(text), apart) == {0}
    tried.decided(decision(apart, 0, text))
    # Balanced again it is the first that is remembered, not the last.
    assert choices(tried, asked(text), fleet(0, 64)) == {1}
    longer = text + tokens(2, 800)
    tried.decided(decision(fleet(0, 65), 0, longer))
    assert choices(tried, asked(longer), fleet(9, 0)) == {0}


def test_where_the_holder_cannot_be_asked_the_first_worker_and_nothing_is_entered() -> None:
    tried, text = policy(), tokens(1)
    workers = fleet(0, 0, 0)
    tried.decided(decision(workers, 1, text))
    left = [candidate(2, 5), candidate(0, 0)]
    assert choices(tried, asked(text), left) == {0}
    tried.decided(decision(left, 0, text + tokens(3)))
    assert choices(tried, asked(text + tokens(3)), fleet(0, 0, 0)) == {1}


def test_evictions_come_by_the_routers_clock() -> None:
    tried, workers = policy(CacheAwareOptions(60.0, 100 * 64)), fleet(0, 0)
    tried.decided(decision(workers, 1, tokens(1), now=0.0))
    tried.decided(decision(workers, 1, tokens(2), now=59.0))
    assert choices(tried, asked(tokens(1)), workers) == {1}
    tried.decided(decision(workers, 0, tokens(3), now=60.0))
    assert choices(tried, asked(tokens(1)), workers) == {0}
    assert choices(tried, asked(tokens(2)), workers) == {1}
    tried.decided(decision(workers, 1, tokens(4), now=119.0))
    assert choices(tried, asked(tokens(2)), workers) == {1}
    tried.decided(decision(workers, 0, tokens(5), now=300.0))
    assert choices(tried, asked(tokens(2)), workers) == {0}


def test_a_prompt_that_is_not_known_goes_by_load() -> None:
    tried = policy()
    tried.decided(decision(fleet(0, 0), 1, None))
    assert choices(tried, asked(None), fleet(1, 0)) == {1}
