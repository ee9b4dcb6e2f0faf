"""The policy `random`: any worker; the baseline of the published benchmarks."""

import random
from collections.abc import Sequence

from warmroute.policy.protocol import Candidate, Cost, PolicyRequest


class RandomPolicy:
    """The cost is a throw of the dice."""

    name = "random"
    unit = "chance"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        throws = [rng.random() for _ in candidates]
        return [Cost(throw, {"chance": throw}) for throw in throws]
