"""Whatever a worker is like: its price is a number, and what makes it worse never makes it cheaper."""

import math
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from warmroute.block import Overlap, Tier
from warmroute.policy import POLICIES, Candidate, PolicyRequest, cached_tokens, cheapest
from warmroute.worker import Lane, LaneKey, Load, Rates, Worker, WorkerKey, WorkerSpec

_BLOCK = 16

# The bounds of what is calibrated.
_RATES = st.builds(
    Rates,
    st.floats(100.0, 1e8),
    st.floats(1e-7, 0.1),
    st.floats(0.0, 10.0),
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({tier: st.floats(100.0, 1e8) for tier in (Tier.HOST, Tier.DISK, Tier.REMOTE)}),
    ),
)


@st.composite
def _loads(draw: st.DrawFn) -> Load:
    """As `Worker.lane_load` makes them: what waits in the engine was seen some time ago, and may be more than runs."""
    prefilling, decoding, foreign = (draw(st.integers(0, 2_000)) for _ in range(3))
    queued = draw(st.integers(0, 10**9)) if prefilling else 0
    waiting = draw(st.integers(0, 5_000))
    return Load(prefilling + decoding + foreign, decoding, queued, waiting)


@st.composite
def _asked(draw: st.DrawFn) -> tuple[PolicyRequest, Candidate]:
    prompt_tokens = draw(st.integers(0, 2_000_000))
    output_tokens = draw(st.floats(0.0, 1e6))
    blocks = prompt_tokens // _BLOCK
    device = draw(st.integers(0, blocks))
    host = draw(st.integers(0, blocks - device))
    disk = draw(st.integers(0, blocks - device - host))
    overlap = Overlap(device=device, host=host, disk=disk)
    worker = Worker(WorkerKey(0), WorkerSpec("http://w:1"), (lane := Lane(LaneKey(0)),))
    held = cached_tokens(device + host + disk, _BLOCK, prompt_tokens)
    candidate = Candidate(worker, lane, draw(_loads()), draw(_RATES), overlap, _BLOCK, prompt_tokens, held)
    return PolicyRequest(prompt_tokens, output_tokens, 0), candidate


def _price(request: PolicyRequest, candidate: Candidate) -> float:
    cost = POLICIES["warmroute"]().costs(request, [candidate], random.Random(0))[0]
    assert math.isfinite(cost.total)
    assert all(term >= 0.0 for term in cost.terms.values()), "no time is negative"
    assert math.isclose(sum(cost.terms.values()), cost.total)
    return cost.total


def _at_least(dearer: float, cheaper: float) -> bool:
    return dearer >= cheaper * (1.0 - 1e-12)


@given(_asked())
def test_a_price_is_a_time(asked: tuple[PolicyRequest, Candidate]) -> None:
    assert _price(*asked) >= 0.0


@given(_asked(), st.integers(1, 10**6))
def test_more_tokens_before_it_never_make_a_worker_cheaper(asked: tuple[PolicyRequest, Candidate], more: int) -> None:
    request, candidate = asked
    queue = replace(candidate.load, queued_tokens=candidate.load.queued_tokens + more)
    assert _at_least(_price(request, replace(candidate, load=queue)), _price(request, candidate))


def test_a_last_block_that_is_computed_is_not_brought_back_as_well() -> None:
    worker = Worker(WorkerKey(0), WorkerSpec("http://w:1"), (lane := Lane(LaneKey(0)),))
    nothing, whole = Overlap(), Overlap(host=1)
    prices = [
        _price(PolicyRequest(16, 1.0, 0), Candidate(worker, lane, Load(), Rates(100.0, 0.001), held, _BLOCK, 16, 0))
        for held in (nothing, whole)
    ]
    assert prices[0] == prices[1]


@given(_asked(), st.integers(1, 1_000))
def test_more_that_wait_in_its_engine_never_make_a_worker_cheaper(
    asked: tuple[PolicyRequest, Candidate], more: int
) -> None:
    request, candidate = asked
    waiting = replace(candidate.load, waiting=candidate.load.waiting + more)
    assert _at_least(_price(request, replace(candidate, load=waiting)), _price(request, candidate))


@given(_asked(), st.integers(1, 1_000))
def test_more_that_wait_for_their_first_token_never_make_a_worker_cheaper(
    asked: tuple[PolicyRequest, Candidate], more: int
) -> None:
    request, candidate = asked
    load = candidate.load
    busier = replace(load, requests=load.requests + more, waiting=0)
    calm = replace(candidate, load=replace(load, waiting=0))
    assert _at_least(_price(request, replace(candidate, load=busier)), _price(request, calm))


@given(_asked(), st.integers(1, 1_000))
def test_more_that_stream_never_make_a_worker_cheaper(asked: tuple[PolicyRequest, Candidate], more: int) -> None:
    request, candidate = asked
    load = replace(candidate.load, waiting=0)
    busier = replace(load, requests=load.requests + more, decoding=load.decoding + more)
    assert _at_least(_price(request, replace(candidate, load=busier)), _price(request, replace(candidate, load=load)))


@given(_asked(), st.integers(1, 1_000))
def test_fewer_blocks_never_make_a_worker_cheaper(asked: tuple[PolicyRequest, Candidate], fewer: int) -> None:
    request, candidate = asked
    held = candidate.overlap
    device = max(0, held.device - fewer)
    lost = replace(
        candidate,
        overlap=Overlap(device=device),
        cached_tokens=cached_tokens(device, _BLOCK, request.prompt_tokens),
    )
    alone = replace(
        candidate,
        overlap=Overlap(device=held.device),
        cached_tokens=cached_tokens(held.device, _BLOCK, request.prompt_tokens),
    )
    assert _at_least(_price(request, lost), _price(request, alone))
    # Blocks in a slower tier are never worse than none: what takes longer to bring back is computed anew.
    assert _at_least(_price(request, alone), _price(request, candidate))


@given(_asked(), st.integers(2, 30), st.integers(0, 2**32))
def test_equal_workers_share_what_comes(asked: tuple[PolicyRequest, Candidate], workers: int, seed: int) -> None:
    """Requests that are booked as they are sent: no worker runs ahead by more than one."""
    request, candidate = asked
    if candidate.uncached_tokens == 0:
        return
    policy, rng = POLICIES["warmroute"](), random.Random(seed)
    fleet = [replace(candidate, load=Load()) for _ in range(workers)]
    for _ in range(3 * workers):
        at = cheapest(policy.costs(request, fleet, rng), rng)
        load = fleet[at].load
        queued = load.queued_tokens + candidate.uncached_tokens
        fleet[at].load = Load(load.requests + 1, 0, queued, 0)
    counts = [each.load.requests for each in fleet]
    assert max(counts) - min(counts) <= 1, counts
