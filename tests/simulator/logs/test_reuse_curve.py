"""Reuse by size of cache, against a cache that is really kept."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.request_log import BlockedRequest, Blocking, open_log
from warmroute.simulator.logs import read_all, reuse_curve

SIZE = 4
TRACES = Path(__file__).resolve().parents[3] / "../shared/traces"


def request(at_s: float, chain: Sequence[int], rest: int = 0) -> BlockedRequest:
    """A prompt of blocks that are named by all before them, and `rest` tokens more."""
    blocks = array("Q", [hash(tuple(chain[: end + 1])) % 2**64 for end in range(len(chain))])
    return BlockedRequest(at_s, len(chain) * SIZE + rest, blocks, SIZE)


def lru_share(requests: Sequence[BlockedRequest], answers: Sequence[int], capacity_tokens: int) -> float:
    """The twin: an LRU cache of single tokens' worth of blocks, evicted from the tail of what was touched together."""
    held: OrderedDict[object, int] = OrderedDict()
    found = 0
    for number, (each, answer) in enumerate(zip(requests, answers, strict=True)):
        kept = list(each.blocks[: each.full_blocks])
        at = next((at for at, block in enumerate(kept) if block not in held), len(kept))
        found += at * SIZE
        rest = each.prompt_tokens - len(kept) * SIZE + answer
        entries = [(block, SIZE) for block in kept] + [(("rest", number), rest)]
        for key, tokens in reversed(entries):
            held[key] = tokens
            held.move_to_end(key)
        while sum(held.values()) > capacity_tokens:
            held.popitem(last=False)
    return found / sum(each.prompt_tokens for each in requests)


CHAINS = st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=5), st.integers(1, 3)), min_size=1, max_size=14)


@settings(deadline=None)
@given(chains=CHAINS)
def test_without_end_it_is_the_longest_prefix_seen(chains: list[tuple[list[int], int]]) -> None:
    requests = [request(float(at), chain, rest) for at, (chain, rest) in enumerate(chains)]
    curve = reuse_curve(requests, [2] * len(requests))
    assert curve.reusable_share == pytest.approx(lru_share(requests, [2] * len(requests), 10**9))
    assert curve.share_with(10**9) == pytest.approx(curve.reusable_share)
    assert curve.prompt_tokens == curve.reusable_tokens + curve.different_tokens


def test_a_last_block_that_is_named_repeats_though_it_is_not_full() -> None:
    """Mooncake's traces name 512 tokens: of shorter prompts nothing was told to repeat that caches then held."""
    short = [BlockedRequest(float(at), 3, array("Q", [7]), SIZE) for at in range(4)]
    curve = reuse_curve(short, [2] * 4)
    assert (curve.reusable_tokens, curve.different_tokens) == (9, 3)
    assert curve.share_with(100) == curve.reusable_share == 9 / 12
    assert [window.working_set_tokens for window in curve.windows if window.requests] == [3] * 4
    longer = [BlockedRequest(float(at), 6, array("Q", [7, 8]), SIZE) for at in range(2)]
    assert reuse_curve(longer, [0, 0]).reusable_tokens == 6


@settings(deadline=None)
@given(chains=CHAINS, capacity=st.integers(8, 200))
def test_a_cache_of_some_size_holds_what_an_lru_cache_holds(chains: list[tuple[list[int], int]], capacity: int) -> None:
    """Blocks that were touched together count as one, so the curve may be a request's own prompt too careful."""
    requests = [request(float(at), chain, rest) for at, (chain, rest) in enumerate(chains)]
    answers = [2] * len(requests)
    largest = max(each.prompt_tokens for each in requests) + 2
    share = reuse_curve(requests, answers).share_with(capacity)
    assert share <= lru_share(requests, answers, round(capacity * 1.01) + 1) + 1e-9
    assert share >= lru_share(requests, answers, max(0, capacity - largest)) - 1e-9


def test_a_known_curve() -> None:
    one, other = [1] * 10, [2] * 10
    requests = [request(at, chain, 1) for at, chain in enumerate([one, other] * 10)]
    curve = reuse_curve(requests, [9] * 20)
    assert curve.reusable_share == pytest.approx(18 * 40 / (20 * 41))
    assert curve.share_with(40) == 0.0
    assert curve.share_with(110) == pytest.approx(curve.reusable_share)
    assert 90 <= curve.cache_for(0.9) <= 110
    assert (curve.requests, curve.answer_tokens, curve.different_tokens) == (20, 180, 80 + 20)


def test_the_working_set_over_time() -> None:
    requests = [request(float(at), [at // 60] * 10) for at in range(120)]
    windows = reuse_curve(requests, [1] * 120).windows
    assert len(windows) == 12
    assert {window.working_set_tokens for window in windows} == {40}
    assert sum(window.requests for window in windows) == 120
    assert [round(window.start_s) for window in windows[:3]] == [0, 10, 20]
    assert len(reuse_curve(requests[:1], [1]).windows) == 1


@pytest.mark.skipif(not TRACES.is_dir(), reason="the recorded traces are not here")
@pytest.mark.parametrize(("name", "share"), [("conversation", 0.374), ("synthetic", 0.651)])
def test_mooncake_s_traces(name: str, share: float) -> None:
    """Their known reuse counts the shorter last blocks as well, which engines do not cache: a thousandth of it."""
    reading, requests = open_log(str(TRACES / f"mooncake_fast25/{name}_trace.jsonl"))
    log = read_all(reading, requests, Blocking())
    curve = reuse_curve(log.requests, [request.answer_tokens or 0 for request in log.requests])
    assert curve.reusable_share == pytest.approx(share, abs=0.001)
