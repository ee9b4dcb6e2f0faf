"""The policy `weighted`: the score that practitioners often quote, with two weights set by hand.

score = cache_hit_blocks x prefill_cost_saved - queue_depth x queue_latency_penalty        (highest wins)
"""

import random
from collections.abc import Sequence

from warmroute.policy.protocol import Candidate, Cost, PolicyRequest

# The block that the quoted weight is meant for; other sizes count by their tokens.
_BLOCK_TOKENS = 16
# In milliseconds, of a Qwen3-32B worker on two H100s: 16 tokens at 18,000 tokens/s; a request ahead of ours.
PREFILL_COST_SAVED_MS = 0.9
QUEUE_LATENCY_PENALTY_MS = 20.0


class WeightedPolicy:
    """Blocks saved against requests ahead; the cost is the negative score."""

    name = "weighted"
    unit = "negative score"
    considers_all = False

    def __init__(
        self,
        prefill_cost_saved: float = PREFILL_COST_SAVED_MS,
        queue_latency_penalty: float = QUEUE_LATENCY_PENALTY_MS,
    ) -> None:
        self._prefill_cost_saved = prefill_cost_saved
        self._queue_latency_penalty = queue_latency_penalty

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [self._cost(candidate) for candidate in candidates]

    def _cost(self, candidate: Candidate) -> Cost:
        hit_blocks = candidate.overlap.blocks * candidate.block_size / _BLOCK_TOKENS
        terms = {
            "saved": -hit_blocks * self._prefill_cost_saved,
            "queue": candidate.load.requests * self._queue_latency_penalty,
        }
        return Cost(sum(terms.values()), terms)
