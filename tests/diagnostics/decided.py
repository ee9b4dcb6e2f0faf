"""Decisions over fleets made by hand or by chance, as the router makes them."""

import random
from collections.abc import Sequence

from hypothesis import strategies as st

from warmroute.block import Overlap, Tier
from warmroute.policy import Candidate, Cost, Policy, PolicyRequest, cached_tokens, cheapest
from warmroute.router import Decision, RouteRequest
from warmroute.router.decision import Foundation
from warmroute.worker import Lane, LaneKey, Load, Rates, Worker, WorkerKey, WorkerSpec

BLOCK = 16


def candidate(
    number: int,
    prompt_tokens: int,
    overlap: Overlap | None = None,
    load: Load | None = None,
    rates: Rates | None = None,
    block_size: int = BLOCK,
) -> Candidate:
    """Worker `number`, which holds so much of the prompt and has so much to do."""
    worker = Worker(WorkerKey(number), WorkerSpec(f"http://w{number}:1"), (lane := Lane(LaneKey(number)),))
    held = overlap or Overlap()
    speed = rates or Rates(10_000.0, 0.001, 0.01)
    cached = cached_tokens(held.blocks, block_size, prompt_tokens)
    return Candidate(worker, lane, load or Load(), speed, held, block_size, prompt_tokens, cached)


def decide(policy: Policy, candidates: Sequence[Candidate], output_tokens: float = 100.0, seed: int = 0) -> Decision:
    """What the router would decide."""
    rng, prompt_tokens = random.Random(seed), candidates[0].prompt_tokens
    asked = PolicyRequest(prompt_tokens, output_tokens, seed)
    costs = policy.costs(asked, candidates, rng)
    position = cheapest(costs, rng)
    chosen = candidates[position]
    return Decision(
        request=RouteRequest("r", "m", range(prompt_tokens), prompt_tokens),
        worker=chosen.worker,
        lane=chosen.lane,
        policy=policy.name,
        unit=policy.unit,
        cached_tokens=chosen.cached_tokens,
        tokens_ahead=chosen.load.queued_tokens + chosen.uncached_tokens,
        running=chosen.load.requests,
        decided_at=0.0,
        position=position,
        candidates=candidates,
        costs=costs,
        asked=asked,
        decided_by=policy,
        eligible=len(candidates),
        foundation=Foundation(followed=True, settled=True, block_size=chosen.block_size),
    )


def cheapest_positions(costs: Sequence[Cost]) -> set[int]:
    """Everybody whom `cheapest` may return."""
    least = min(cost.total for cost in costs)
    return {position for position, cost in enumerate(costs) if cost.total == least}


_RATES = st.builds(
    Rates,
    st.floats(1_000.0, 1e5),
    st.floats(1e-5, 0.01),
    st.floats(0.0, 0.1),
    st.sampled_from([{}, {Tier.HOST: 5e4, Tier.DISK: 2e4, Tier.REMOTE: 1e4}]),
)


@st.composite
def _loads(draw: st.DrawFn) -> Load:
    """Few enough for every number up to them to be tried."""
    prefilling, decoding, foreign = (draw(st.integers(0, 12)) for _ in range(3))
    queued = draw(st.integers(1, 400)) if prefilling else 0
    requests = prefilling + decoding + foreign
    return Load(requests, decoding, queued, draw(st.integers(0, requests)))


@st.composite
def candidates(draw: st.DrawFn, prompt_tokens: int, number: int) -> Candidate:
    """Any worker, in blocks of either size."""
    size = draw(st.sampled_from((BLOCK, 64)))
    left, held = prompt_tokens // size, []
    for _ in range(5):
        held.append(draw(st.integers(0, left)))
        left -= held[-1]
    return candidate(number, prompt_tokens, Overlap(*held), draw(_loads()), draw(_RATES), size)


@st.composite
def fleets(draw: st.DrawFn) -> list[Candidate]:
    """Two to five workers and one prompt."""
    prompt_tokens = draw(st.integers(1, 1_500))
    return [draw(candidates(prompt_tokens, number)) for number in range(draw(st.integers(2, 5)))]
