"""llm-d's default since August 2026, "sticky until saturated": a filter for affinity, then load in tokens.

    sticky     workers that hold 0.8 of the prompt's blocks, by the approximate index (blocks of 64 tokens)
    released   when the least loaded of them has over 18 s more to prefill than the least loaded other, at 15,928
               tokens per second (about 287,000 tokens): then all are kept, as where nobody is sticky
    load       1 - min(1, (uncached tokens in flight + this request's) / 4 Mi); the largest wins, ties at random

A request's uncached tokens are in flight until its first byte.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision, Outcome
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.in_flight import Prefilling
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.llm_d import SCRAPE_INTERVAL_S, baseline_matches

AFFINITY_THRESHOLD = 0.8
PEAK_PREFILL_TOKENS_PER_S = 15_928.0
MOST_PENALTY_S = 18.0
FULL_TOKENS = 4 * 2**20


class LlmDAffinityPolicy(Learner):
    """`most_penalty_s`: the longer prefill that affinity is worth. Those filtered out cost 1 more."""

    name = "llm-d-affinity"
    unit = "share of 4 Mi tokens, and 1 where filtered out"

    def __init__(self, most_penalty_s: float = MOST_PENALTY_S) -> None:
        self._most_ahead = most_penalty_s * PEAK_PREFILL_TOKENS_PER_S
        self._matches = baseline_matches()
        self._prefilling = Prefilling()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        shares = self._matches.shares(request.token_ids, candidates, request.now)
        ahead = [self._prefilling.tokens(candidate.lane.key) for candidate in candidates]
        kept = self._kept(shares, ahead)
        terms = [
            {
                "load": min(1.0, (ahead[position] + _uncached(request.prompt_tokens, share)) / FULL_TOKENS),
                "filtered": float(position not in kept),
            }
            for position, share in enumerate(shares)
        ]
        return [Cost(each["load"] + each["filtered"], each) for each in terms]

    def decided(self, decision: Decision) -> None:
        request = decision.request
        shares = self._matches.shares(request.token_ids, decision.candidates, decision.decided_at)
        self._prefilling.add(decision, _uncached(request.prompt_tokens, shares[decision.position]))
        self._matches.sent(decision)

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        self._prefilling.settled(decision)

    def _kept(self, shares: Sequence[float], ahead: Sequence[int]) -> Sequence[int]:
        sticky = [position for position, share in enumerate(shares) if share >= AFFINITY_THRESHOLD]
        others = [position for position, share in enumerate(shares) if share < AFFINITY_THRESHOLD]
        if not sticky or not others:
            return range(len(shares))
        penalty = min(ahead[position] for position in sticky) - min(ahead[position] for position in others)
        return range(len(shares)) if penalty > self._most_ahead else sticky


def _uncached(prompt_tokens: int, share: float) -> int:
    return round(prompt_tokens * (1.0 - share))


ARM = Arm(
    "llm-d-affinity",
    "stays with workers that were sent 80 % of the prompt until they have 18 s more to prefill",
    LlmDAffinityPolicy,
    "llm-d/llm-d-router, prefix-cache-affinity-filter and token-load-scorer, August 2026",
    scrape_interval_s=SCRAPE_INTERVAL_S,
    hears_events=False,
    knob=Knob("most penalty, s", MOST_PENALTY_S, (0.25, 1.0, 4.0, 9.0, MOST_PENALTY_S, 72.0), LlmDAffinityPolicy),
)
