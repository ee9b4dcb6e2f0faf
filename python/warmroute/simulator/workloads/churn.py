"""A working set that drifts: prefixes are asked for during a while, die, and new ones take their place."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.simulator.tokens import Joined, Text
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.arrivals import poisson_process
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage


@dataclass(frozen=True, slots=True)
class Drift:
    """At any time `alive` prefixes are asked for alike; each lives `life_s`, and their births are spread evenly."""

    alive: int
    life_s: float
    prefix: Lengths
    question: Lengths
    answer: Lengths
    rate: float
    duration_s: float

    def sessions(self, seed: int) -> Iterator[Session]:
        rng = random.Random(seed_of(seed, "requests"))
        for number, at in enumerate(poisson_process(self.rate, self.duration_s, rng)):
            eldest = int(at * self.alive / self.life_s)
            prefix = self._prefix(seed, eldest + rng.randrange(self.alive))
            question = Text(seed_of(seed, "question", number), self.question.draw(rng))
            answer = Text(seed_of(seed, "answer", number), self.answer.draw(rng))
            yield Session(at, (Turn(Joined((prefix, question)), answer),))

    def _prefix(self, seed: int, number: int) -> Text:
        own_seed = seed_of(seed, "prefix", number)
        return Text(own_seed, self.prefix.draw(random.Random(own_seed)))


CHURN = SingleStage(
    name="churn",
    about="120 prefixes of about 6k tokens at a time, each asked for during 30 s and then never again, 6 pods",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 6),
    traffic=Drift(
        alive=120,
        life_s=30.0,
        prefix=Lengths(6000, 0.3, 2000, 12_000),
        question=Lengths(250, 0.6, 30, 1500),
        answer=Lengths(200, 0.5, 20, 800),
        rate=27.0,
        duration_s=110.0,
    ),
)
