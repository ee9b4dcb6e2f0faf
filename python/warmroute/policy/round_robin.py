"""The policy `round-robin`: each worker in turn; a baseline."""

import random
from collections.abc import Sequence

from warmroute.policy.protocol import Candidate, Cost, PolicyRequest


class RoundRobinPolicy:
    """The cost is how many turns a worker is away from its next one."""

    name = "round-robin"
    unit = "turns"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        turns = [float((position - request.sequence) % len(candidates)) for position in range(len(candidates))]
        return [Cost(turn, {"turns": turn}) for turn in turns]
