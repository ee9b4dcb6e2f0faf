"""Many short requests whose prefixes are warm, and now and then a huge one that nobody has seen before."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.simulator.tokens import Text
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.arrivals import poisson_process
from warmroute.simulator.workloads.hot_prefix import SharedPrefixes
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage


@dataclass(frozen=True, slots=True)
class ColdGiants:
    """`short`, and while it lasts `rate` giants a second, from `warm_after_s` on, when the short ones are warm."""

    short: SharedPrefixes
    giant: Lengths
    answer: Lengths
    rate: float
    warm_after_s: float

    def sessions(self, seed: int) -> Iterator[Session]:
        yield from self.short.sessions(seed)
        rng = random.Random(seed_of(seed, "giants"))
        for number, at in enumerate(poisson_process(self.rate, self.short.duration_s - self.warm_after_s, rng)):
            prompt = Text(seed_of(seed, "giant", number), self.giant.draw(rng))
            answer = Text(seed_of(seed, "giant's answer", number), self.answer.draw(rng))
            yield Session(self.warm_after_s + at, (Turn(prompt, answer),))


COLD_GIANTS = SingleStage(
    name="cold-giants",
    about="short requests behind 40 warm prefixes, and every 3 s a cold prompt of about 28k tokens, 4 pods",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4),
    traffic=ColdGiants(
        short=SharedPrefixes(
            prefixes=40,
            skew=0.6,
            prefix=Lengths(2000, 0.3, 1000, 4000),
            question=Lengths(150, 0.5, 30, 600),
            answer=Lengths(150, 0.5, 20, 500),
            rate=36.0,
            duration_s=80.0,
        ),
        giant=Lengths(28_000, 0.2, 16_000, 38_000),
        answer=Lengths(200, 0.5, 50, 600),
        rate=1 / 3,
        warm_after_s=10.0,
    ),
)
