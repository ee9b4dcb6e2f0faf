"""vllm-router 0.1.17, `kv_aware`: an index fed by KV events, and work times company.

    cost = (uncached prompt tokens + tokens being prefilled) x (requests in flight + 1)
           lowest wins, of equals the first
    cached: device blocks whole, host 0.8, remote 0.6, disk 0.3; the last prompt token is always computed

Choosing and reserving are one step there as here. Blocks that our router merely expects do not count.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision, Outcome
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, first_least, taking
from warmroute.simulator.rivals.in_flight import Prefilling, chosen_candidate
from warmroute.simulator.rivals.learner import Learner

HOST_CREDIT = 0.8
REMOTE_CREDIT = 0.6
DISK_CREDIT = 0.3
REQUEST_EXPONENT = 1.0


class VllmKvAwarePolicy(Learner):
    """`request_exponent`: how much company counts; 1 in the product, which has no such setting. It is for tuning."""

    name = "vllm-router-kv-aware"
    unit = RANK

    def __init__(self, request_exponent: float = REQUEST_EXPONENT) -> None:
        self._request_exponent = request_exponent
        self._prefilling = Prefilling()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        terms = [self._terms(candidate) for candidate in candidates]
        products = [each["tokens"] * each["requests"] ** self._request_exponent for each in terms]
        return taking((first_least(products),), terms)

    def decided(self, decision: Decision) -> None:
        self._prefilling.add(decision, int(_uncached_tokens(chosen_candidate(decision))))

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        self._prefilling.settled(decision)

    def _terms(self, candidate: Candidate) -> dict[str, float]:
        tokens = _uncached_tokens(candidate) + self._prefilling.tokens(candidate.lane.key)
        return {"tokens": tokens, "requests": candidate.load.requests + 1.0}


def _uncached_tokens(candidate: Candidate) -> float:
    held = candidate.overlap
    blocks = held.device + HOST_CREDIT * held.host + REMOTE_CREDIT * held.remote + DISK_CREDIT * held.disk
    return max(1.0, candidate.prompt_tokens - blocks * candidate.block_size)


ARM = Arm(
    "vllm-router-kv-aware",
    "tokens to prefill times requests in flight, by KV events",
    VllmKvAwarePolicy,
    "vllm-project/router 0.1.17, `--policy kv_aware`",
    knob=Knob("exponent of the requests", REQUEST_EXPONENT, (0.0, 0.5, 1.0, 1.5, 2.0), VllmKvAwarePolicy),
)
