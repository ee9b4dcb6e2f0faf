"""The policy `longest-prefix`: the worker that holds most of the prompt, whatever its load; a baseline."""

import random
from collections.abc import Sequence

from warmroute.policy.protocol import Candidate, Cost, PolicyRequest


class LongestPrefixPolicy:
    """Most cached tokens; among equals the one with the fewest requests."""

    name = "longest-prefix"
    unit = "uncached tokens, then requests"
    considers_all = False

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        most = 1 + max(candidate.load.requests for candidate in candidates)
        return [_cost(candidate, most) for candidate in candidates]


def _cost(candidate: Candidate, most_requests: int) -> Cost:
    # A fraction below one token, so that load decides among equal overlaps only.
    terms = {
        "uncached_tokens": float(candidate.uncached_tokens),
        "tie_break": candidate.load.requests / most_requests,
    }
    return Cost(sum(terms.values()), terms)
