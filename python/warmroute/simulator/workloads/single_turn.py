"""Requests that have nothing in common: no policy can gain anything by looking at prefixes, but it can lose."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.simulator.tokens import Text
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.arrivals import poisson_process
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage


@dataclass(frozen=True, slots=True)
class Unrelated:
    """A Poisson process of single requests, `rate` a second."""

    prompt: Lengths
    answer: Lengths
    rate: float
    duration_s: float

    def sessions(self, seed: int) -> Iterator[Session]:
        rng = random.Random(seed_of(seed, "requests"))
        for number, at in enumerate(poisson_process(self.rate, self.duration_s, rng)):
            prompt = Text(seed_of(seed, "prompt", number), self.prompt.draw(rng))
            yield Session(at, (Turn(prompt, Text(seed_of(seed, "answer", number), self.answer.draw(rng))),))


SINGLE_TURN = SingleStage(
    name="single-turn",
    about="30 unrelated requests/s of about 1,900 tokens: nothing to reuse, 6 pods",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 6),
    traffic=Unrelated(
        prompt=Lengths(1500, 0.7, 50, 12_000), answer=Lengths(200, 0.6, 10, 1000), rate=30.0, duration_s=90.0
    ),
)
