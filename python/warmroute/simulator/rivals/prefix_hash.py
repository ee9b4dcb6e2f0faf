"""SGLang's `prefix_hash`: the first 256 tokens hashed on a ring of workers.

    overloaded   load > 1.25 x (load of all + 1) / workers
    then         the least loaded of those that are not; if all are, the ring's worker all the same

The gateway calls it walking on; its code takes the least loaded instead, and so does this.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, first_least, loads, taking
from warmroute.simulator.rivals.hash_ring import HashRing
from warmroute.simulator.rivals.prompt_blocks import leading_hash

LOAD_FACTOR = 1.25
PREFIX_TOKENS = 256
_POINTS_PER_WORKER = 150


class PrefixHashPolicy:
    """`load_factor`: times the mean load above which the ring's worker is passed over."""

    name = "prefix-hash"
    unit = RANK

    def __init__(self, load_factor: float = LOAD_FACTOR) -> None:
        self._load_factor = load_factor
        self._ring = HashRing(_POINTS_PER_WORKER)

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load = loads(candidates)
        most = self._load_factor * (sum(load) + 1) / len(load)
        chosen = self._place(request.token_ids, candidates, load, most)
        return taking((chosen,), [{"requests": float(each), "most": most} for each in load])

    def _place(
        self, token_ids: Sequence[int] | None, candidates: Sequence[Candidate], load: Sequence[int], most: float
    ) -> int:
        lightest = first_least(load)
        if not token_ids:
            return lightest
        own = next(self._ring.walk(leading_hash(token_ids, PREFIX_TOKENS), candidates))
        return own if load[own] <= most or load[lightest] > most else lightest


ARM = Arm(
    "prefix-hash",
    "a hash of the first 256 tokens on a ring; the least loaded where that worker is overloaded",
    PrefixHashPolicy,
    "sgl-project/sglang, sgl-model-gateway/src/policies/prefix_hash.rs",
    hears_events=False,
    knob=Knob("load factor", LOAD_FACTOR, (1.0, 1.1, LOAD_FACTOR, 1.5, 2.0, 4.0), PrefixHashPolicy),
)
