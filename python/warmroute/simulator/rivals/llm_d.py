"""llm-d's blend of scores: each 0 to 1, times its weight; the largest sum wins, ties at random.

    prefix       matched blocks / blocks of the prompt
    kv           1 - share of the KV memory in use
    queue        (longest queue - own) / (longest - shortest), 1 where all are equal
    no-hit-lru   0.5 for all when anybody has a block of the prompt; else the order in which workers got such cold
                 prompts: 1 for those that never did (in their order), less for each that got one more recently

Queue and KV use come from scraped metrics, 50 ms apart, and are taken as they are, however much was sent since.

    precise       3/2/2/2, KV events and speculative entries of 2 s: the published run of 2026
    approximate   1/1/1/0, blocks of 64 bytes (16 tokens), the first 256, 31,250 per worker: the published run of 2025
    baseline      3/2/2/2, blocks of 64 tokens, the first 131,072 tokens, as many per worker as its engine has
    load          0/1/1/0
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.llm_d_index import (
    DEFAULT_LRU_BLOCKS,
    ApproximateMatches,
    MatchSource,
    NoMatches,
    PreciseMatches,
)
from warmroute.worker import LaneKey

SCRAPE_INTERVAL_S = 0.05
BASELINE_BLOCK_TOKENS = 64
MOST_PREFIX_TOKENS = 131_072


@dataclass(frozen=True, slots=True)
class Weights:
    """What each score counts."""

    prefix: float
    kv: float
    queue: float
    no_hit_lru: float = 0.0


class ColdOrder:
    """Which workers got cold prompts, the least recent first."""

    def __init__(self) -> None:
        self._order: dict[LaneKey, None] = {}

    def got(self, lane: LaneKey) -> None:
        """A worker got a prompt of which nobody had a block."""
        self._order.pop(lane, None)
        self._order[lane] = None

    def scores(self, lanes: Sequence[LaneKey]) -> list[float]:
        """For a cold prompt: 1 for the first never used, then less by 1 / (workers - 1) for each place, at least 0."""
        if len(lanes) == 1:
            return [1.0]
        unused = [lane for lane in lanes if lane not in self._order]
        place = {lane: rank for rank, lane in enumerate([*unused, *self._order])}
        return [max(0.0, 1.0 - place[lane] / (len(lanes) - 1)) for lane in lanes]


class LlmDBlendPolicy(Learner):
    """A weighted sum of scores; the cost is the negative score."""

    unit = "negative score"

    def __init__(self, name: str, weights: Weights, matches: MatchSource) -> None:
        self.name = name
        self._weights = weights
        self._matches = matches
        self._cold = ColdOrder()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        weights = self._weights
        prefix = self._matches.shares(request.token_ids, candidates, request.now)
        queue, cold = queue_scores(candidates), self._cold_scores(candidates, prefix)
        terms = [
            {
                "prefix": -weights.prefix * prefix[position],
                "kv": -weights.kv * kv_score(candidate),
                "queue": -weights.queue * queue[position],
                "no_hit_lru": -weights.no_hit_lru * cold[position],
            }
            for position, candidate in enumerate(candidates)
        ]
        return [Cost(sum(each.values()), each) for each in terms]

    def decided(self, decision: Decision) -> None:
        if self._weights.no_hit_lru:
            known = self._matches.shares(decision.request.token_ids, decision.candidates, decision.decided_at)
            if not any(known):
                self._cold.got(decision.lane.key)
        self._matches.sent(decision)

    def _cold_scores(self, candidates: Sequence[Candidate], prefix: Sequence[float]) -> Sequence[float]:
        if any(prefix) or not self._weights.no_hit_lru:
            return [0.5] * len(candidates)
        return self._cold.scores([candidate.lane.key for candidate in candidates])


def queue_scores(candidates: Sequence[Candidate]) -> list[float]:
    """1 for the shortest queue of those scraped, 0 for the longest; a worker that was never scraped has none."""
    queues = [0 if each.worker.report is None else each.worker.report.waiting or 0 for each in candidates]
    shortest, longest = min(queues), max(queues)
    if shortest == longest:
        return [1.0] * len(queues)
    return [(longest - queue) / (longest - shortest) for queue in queues]


def kv_score(candidate: Candidate) -> float:
    """The share of the KV memory that was free when the worker was last scraped; all of it before that."""
    report = candidate.worker.report
    return 1.0 if report is None else 1.0 - (report.kv_usage or 0.0)


PRECISE = Weights(prefix=3.0, kv=2.0, queue=2.0, no_hit_lru=2.0)
APPROXIMATE = Weights(prefix=1.0, kv=1.0, queue=1.0)
BASELINE = PRECISE
LOAD = Weights(prefix=0.0, kv=1.0, queue=1.0)


def precise(weights: Weights = PRECISE) -> LlmDBlendPolicy:
    """By KV events."""
    return LlmDBlendPolicy("llm-d-precise", weights, PreciseMatches())


def approximate(weights: Weights = APPROXIMATE) -> LlmDBlendPolicy:
    """By what was sent, as it was in 2025."""
    return LlmDBlendPolicy("llm-d-approximate", weights, ApproximateMatches(16, 256, DEFAULT_LRU_BLOCKS))


def optimized_baseline(weights: Weights = BASELINE) -> LlmDBlendPolicy:
    """By what was sent, as in the guide of 2026."""
    return LlmDBlendPolicy("llm-d-baseline", weights, baseline_matches())


def by_load(weights: Weights = LOAD) -> LlmDBlendPolicy:
    """Load alone."""
    return LlmDBlendPolicy("llm-d-load", weights, NoMatches())


def baseline_matches() -> ApproximateMatches:
    """The approximate index with the defaults of 2026."""
    return ApproximateMatches(BASELINE_BLOCK_TOKENS, MOST_PREFIX_TOKENS // BASELINE_BLOCK_TOKENS, None)


ARMS = (
    Arm(
        "llm-d-precise",
        "prefix by KV events 3, KV use 2, queue 2, least recently cold 2",
        precise,
        "llm-d/llm-d guides/precise-prefix-cache-routing, 2026",
        scrape_interval_s=SCRAPE_INTERVAL_S,
        knob=Knob(
            "prefix weight",
            PRECISE.prefix,
            (1.0, 2.0, 3.0, 5.0, 8.0, 16.0),
            lambda value: precise(replace(PRECISE, prefix=value)),
        ),
    ),
    Arm(
        "llm-d-approximate",
        "prefix by what was sent (first 16 kB) 1, KV use 1, queue 1",
        approximate,
        "llm-d/llm-d-kv-cache benchmarking/73-capacity, 2025",
        scrape_interval_s=SCRAPE_INTERVAL_S,
        hears_events=False,
        knob=Knob(
            "prefix weight",
            APPROXIMATE.prefix,
            (0.5, 1.0, 1.5, 2.0, 3.0, 5.0),
            lambda value: approximate(replace(APPROXIMATE, prefix=value)),
        ),
    ),
    Arm(
        "llm-d-baseline",
        "prefix by what was sent 3, KV use 2, queue 2, least recently cold 2",
        optimized_baseline,
        "llm-d/llm-d guides/optimized-baseline, May 2026",
        scrape_interval_s=SCRAPE_INTERVAL_S,
        hears_events=False,
        knob=Knob(
            "prefix weight",
            BASELINE.prefix,
            (1.0, 2.0, 3.0, 5.0, 8.0, 16.0),
            lambda value: optimized_baseline(replace(BASELINE, prefix=value)),
        ),
    ),
    Arm(
        "llm-d-load",
        "queue 1, KV use 1",
        by_load,
        "llm-d/llm-d-kv-cache benchmarking/73-capacity, 2025",
        scrape_interval_s=SCRAPE_INTERVAL_S,
        hears_events=False,
        knob=Knob(
            "queue weight", LOAD.queue, (0.25, 0.5, 1.0, 2.0, 4.0), lambda value: by_load(replace(LOAD, queue=value))
        ),
    ),
)
