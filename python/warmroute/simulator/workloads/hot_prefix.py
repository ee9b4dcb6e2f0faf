"""Many prefixes, one of them asked for far more often than one worker can serve."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.simulator.tokens import Ids, Joined, Text
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.arrivals import poisson_process
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage


@dataclass(frozen=True, slots=True)
class SharedPrefixes:
    """Single questions behind shared prefixes whose popularity follows Zipf's law: rank k in proportion to 1 / k**skew.

    Of 200 prefixes with a skew of 1.4 the first has 36 % of the requests, the first ten have 76 %.
    """

    prefixes: int
    skew: float
    prefix: Lengths
    question: Lengths
    answer: Lengths
    rate: float
    duration_s: float

    def sessions(self, seed: int) -> Iterator[Session]:
        rng = random.Random(seed_of(seed, "requests"))
        prefixes = [self._prefix(seed, rank) for rank in range(self.prefixes)]
        heard = list(itertools.accumulate((rank + 1) ** -self.skew for rank in range(self.prefixes)))
        for number, at in enumerate(poisson_process(self.rate, self.duration_s, rng)):
            prefix = rng.choices(prefixes, cum_weights=heard)[0]
            question = Text(seed_of(seed, "question", number), self.question.draw(rng))
            answer = Text(seed_of(seed, "answer", number), self.answer.draw(rng))
            yield Session(at, (Turn(Joined((prefix, question)), answer),))

    def _prefix(self, seed: int, rank: int) -> Ids:
        length = self.prefix.draw(random.Random(seed_of(seed, "length", rank)))
        return Ids(Text(seed_of(seed, "prefix", rank), length).ids())


HOT_PREFIX = SingleStage(
    name="hot-prefix",
    about="200 shared prefixes of about 5k tokens, a third of 36 requests/s to the hottest one, 4 pods",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4),
    traffic=SharedPrefixes(
        prefixes=200,
        skew=1.4,
        prefix=Lengths(5000, 0.5, 1000, 16_000),
        question=Lengths(250, 0.7, 30, 2000),
        answer=Lengths(180, 0.6, 20, 1000),
        rate=36.0,
        duration_s=80.0,
    ),
)
