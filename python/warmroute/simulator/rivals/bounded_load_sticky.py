"""Consistent hashing with bounded loads: a prompt's beginning belongs to a place on a ring, unless it is full there.

    full    when one more request would bring a worker above ceil(c x (requests in flight + 1) / workers)
    then    the next worker on the ring that is not full

Mirrokni, Thorup, Zadimoghaddam, 2018; c = 1.25 as in the routers that have it.
"""

import math
import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, first_least, loads, taking
from warmroute.simulator.rivals.hash_ring import HashRing
from warmroute.simulator.rivals.prompt_blocks import leading_hash

LOAD_BOUND = 1.25
# 16 blocks of 16, as SGLang's prefix_hash: long enough to tell system prompts apart, short enough to keep a group.
PREFIX_TOKENS = 256


class BoundedLoadStickyPolicy:
    """`bound` is c; `prefix_tokens` are hashed."""

    name = "bounded-load-sticky"
    unit = RANK

    def __init__(self, bound: float = LOAD_BOUND, prefix_tokens: int = PREFIX_TOKENS) -> None:
        self._bound, self._prefix_tokens = bound, prefix_tokens
        self._ring = HashRing()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load = loads(candidates)
        most = math.ceil(self._bound * (sum(load) + 1) / len(load))
        chosen = self._place(request.token_ids, candidates, load, most)
        return taking((chosen,), [{"requests": float(each), "most": float(most)} for each in load])

    def _place(
        self, token_ids: Sequence[int] | None, candidates: Sequence[Candidate], load: Sequence[int], most: int
    ) -> int:
        if not token_ids:
            return first_least(load)
        ring = self._ring.walk(leading_hash(token_ids, self._prefix_tokens), candidates)
        return next((position for position in ring if load[position] < most), first_least(load))


ARM = Arm(
    "bounded-load-sticky",
    "a hash of the prompt's beginning, walking on from workers above 1.25 x the mean load",
    BoundedLoadStickyPolicy,
    "Mirrokni et al., Consistent hashing with bounded loads, 2018",
    hears_events=False,
    knob=Knob("load bound c", LOAD_BOUND, (1.0, 1.1, LOAD_BOUND, 1.5, 2.0, 4.0), BoundedLoadStickyPolicy),
)
