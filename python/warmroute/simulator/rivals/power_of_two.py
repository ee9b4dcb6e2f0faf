"""The power of two choices: of two workers drawn at random the one with fewer requests in flight."""

import random
from collections.abc import Sequence

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import RANK, lighter_of, loads, taking

DEFAULT_CHOICES = 2


class PowerOfTwoPolicy:
    """Draws `choices` different workers and takes the lightest."""

    name = "power-of-two"
    unit = RANK

    def __init__(self, choices: int = DEFAULT_CHOICES) -> None:
        self._choices = choices

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        load = loads(candidates)
        chosen = lighter_of(self._choices, range(len(load)), load, rng)
        return taking((chosen,), [{"requests": float(each)} for each in load])


ARM = Arm(
    "power-of-two",
    "the lighter of two workers drawn at random",
    PowerOfTwoPolicy,
    "Mitzenmacher 2001; `power_of_two` of SGLang's and vLLM's routers",
    hears_events=False,
    knob=Knob("workers drawn", DEFAULT_CHOICES, (1.0, 2.0, 3.0, 4.0, 8.0), lambda value: PowerOfTwoPolicy(int(value))),
)
