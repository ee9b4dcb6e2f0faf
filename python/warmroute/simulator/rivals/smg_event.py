"""SMG (the successor of SGLang's gateway) with KV events: the most blocks of the prompt, load among equals.

    balance broken   most - least > 64 and most > 1.5 x least      the least loaded, the first of equals
    else             the largest overlap; of equals the lower load; nobody holds any: the least loaded, the first

Blocks that our router merely expects do not count. A last tie, which SMG breaks by the smaller tree, is left to chance.
"""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, first_least, is_imbalanced, loads, taking
from warmroute.simulator.rivals.prompt_blocks import confirmed

MOST_APART = 64.0
MOST_TIMES = 1.5


class SmgEventPolicy:
    """`most_apart` is SMG's balance_abs_threshold."""

    name = "smg-event"
    unit = RANK

    def __init__(self, most_apart: float = MOST_APART) -> None:
        self._most_apart = most_apart

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load, held = loads(candidates), [confirmed(candidate.overlap) for candidate in candidates]
        terms = [{"blocks": float(blocks), "requests": float(each)} for blocks, each in zip(held, load, strict=True)]
        if is_imbalanced(load, self._most_apart, MOST_TIMES) or not any(held):
            return taking((first_least(load),), terms)
        ranks = [(-blocks, each) for blocks, each in zip(held, load, strict=True)]
        best = min(ranks)
        return taking([position for position, rank in enumerate(ranks) if rank == best], terms)


ARM = Arm(
    "smg-event",
    "most blocks by KV events, the least loaded while loads are far apart",
    SmgEventPolicy,
    "lightseekorg/smg 1.13.0, model_gateway/src/policies/cache_aware.rs",
    knob=Knob("balance_abs_threshold", MOST_APART, (4.0, 8.0, 16.0, 32.0, MOST_APART, 128.0), SmgEventPolicy),
)
