"""Candidates, requests and decisions made by hand, so that a policy's figures can be computed on paper."""

import random
from collections.abc import Sequence

from warmroute.block import Overlap
from warmroute.policy import POLICIES, Candidate, Policy, PolicyRequest, cheapest
from warmroute.router import Decision, Outcome, RouteRequest
from warmroute.router.decision import Foundation
from warmroute.worker import Booking, Lane, LaneKey, Load, LoadReport, Rates, Worker, WorkerFacts, WorkerKey, WorkerSpec

PROMPT_TOKENS = 1600


def tokens(seed: int, count: int = PROMPT_TOKENS) -> list[int]:
    """A text of its own; shorter ones of the same seed are its beginning."""
    rng = random.Random(seed)
    return [rng.getrandbits(32) for _ in range(count)]


def candidate(
    key: int,
    requests: int = 0,
    overlap: Overlap | None = None,
    *,
    waiting: int = 0,
    kv_usage: float = 0.0,
    running: int = 0,
    prompt_tokens: int = PROMPT_TOKENS,
    block_size: int = 16,
    capacity_blocks: int | None = None,
    rate: float = 10_000.0,
) -> Candidate:
    """The worker number `key` with one lane."""
    lane = Lane(LaneKey(key))
    worker = Worker(WorkerKey(key), WorkerSpec(f"http://worker-{key}:8000"), (lane,))
    worker.facts = WorkerFacts(block_size=block_size, capacity_blocks=capacity_blocks)
    worker.report = LoadReport(running + waiting, kv_usage, 0.0, 0, waiting)
    held = overlap or Overlap()
    cached = min(held.blocks * block_size, prompt_tokens)
    return Candidate(worker, lane, Load(requests), Rates(rate, 0.001), held, block_size, prompt_tokens, cached)


def fleet(*requests: int) -> list[Candidate]:
    """Workers 0, 1, 2 and so on with these numbers of requests in flight."""
    return [candidate(key, each) for key, each in enumerate(requests)]


def asked(
    token_ids: Sequence[int] | None = None, *, now: float = 0.0, sequence: int = 0, session: str | None = None
) -> PolicyRequest:
    count = PROMPT_TOKENS if token_ids is None else len(token_ids)
    return PolicyRequest(count, 100.0, sequence, now, token_ids, session)


def totals(policy: Policy, request: PolicyRequest, candidates: Sequence[Candidate], seed: int = 0) -> list[float]:
    return [cost.total for cost in policy.costs(request, candidates, random.Random(seed))]


def choose(policy: Policy, request: PolicyRequest, candidates: Sequence[Candidate], seed: int = 0) -> int:
    rng = random.Random(seed)
    return cheapest(policy.costs(request, candidates, rng), rng)


def choices(policy: Policy, request: PolicyRequest, candidates: Sequence[Candidate]) -> set[int]:
    """Everything that chance lets it choose."""
    return {choose(policy, request, candidates, seed) for seed in range(60)}


def decision(
    candidates: Sequence[Candidate],
    position: int,
    token_ids: Sequence[int] | None = None,
    *,
    now: float = 0.0,
    request_id: str = "r",
) -> Decision:
    """The router gave a request to the candidate at this position; its prefill is not over."""
    count = PROMPT_TOKENS if token_ids is None else len(token_ids)
    chosen = candidates[position]
    return Decision(
        request=RouteRequest(request_id, "m", token_ids, count, stream=True),
        worker=chosen.worker,
        lane=chosen.lane,
        policy="",
        unit="",
        cached_tokens=0,
        tokens_ahead=0,
        running=0,
        decided_at=now,
        position=position,
        candidates=candidates,
        costs=(),
        asked=asked(token_ids, now=now),
        decided_by=POLICIES["least-loaded"](),
        eligible=len(candidates),
        foundation=Foundation(followed=True, settled=True, block_size=chosen.block_size),
        booking=Booking(chosen.worker, chosen.lane, request_id, count),
    )


def first_byte(made: Decision) -> None:
    """Its prefill is over."""
    assert made.booking is not None
    made.booking.prefilling = False


def answered(made: Decision, first_byte_at: float = 1.0, ended_at: float = 2.0, output_tokens: int = 11) -> Outcome:
    """It ended well, and its booking is released as the router's table would."""
    _release(made)
    return Outcome(True, False, ended_at, first_byte_at, 200, output_tokens=output_tokens)


def broken(made: Decision) -> Outcome:
    """The worker died before it answered."""
    _release(made)
    return Outcome(False, True, 1.0)


def refused(made: Decision) -> Outcome:
    """The worker answered with an error."""
    _release(made)
    return Outcome(True, False, 1.0, 0.5, 503)


def _release(made: Decision) -> None:
    assert made.booking is not None
    made.booking.prefilling, made.booking.released = False, True


ENDS = (answered, broken, refused)
