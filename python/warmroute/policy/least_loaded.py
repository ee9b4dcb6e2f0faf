"""The policy `least-loaded`: the worker with the fewest requests in flight; a baseline."""

import random
from collections.abc import Sequence

from warmroute.policy.protocol import Candidate, Cost, PolicyRequest


class LeastLoadedPolicy:
    """Fewest requests in flight."""

    name = "least-loaded"
    unit = "requests"
    considers_all = False

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [
            Cost(float(candidate.load.requests), {"requests": float(candidate.load.requests)})
            for candidate in candidates
        ]
