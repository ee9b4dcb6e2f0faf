"""A policy of one's own: rented workers, named `standby...`, get what would wait too long for the others.

In the simulator, whose workers have numbers, and live:

    STANDBY=worker-6,worker-7 warmroute simulate --policy warmroute --policy examples.standby:Standby
    warmroute serve --config warmroute.toml --policy examples.standby:Standby
"""

import os
import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.policy.cost_model import CostModelPolicy

PATIENCE_S = 2.0
NAMES = tuple(os.environ.get("STANDBY", "standby").split(","))


class Standby(CostModelPolicy):
    """The router's own costs, and two seconds more on a worker that is rented."""

    name = "standby"
    considers_all = True  # a worker with less to do may be the dearer one here

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        own = super().costs(request, candidates, rng)
        rent = [PATIENCE_S * candidate.worker.name.startswith(NAMES) for candidate in candidates]
        return [Cost(cost.total + s, {**cost.terms, "standby_s": s}) for cost, s in zip(own, rent, strict=True)]
