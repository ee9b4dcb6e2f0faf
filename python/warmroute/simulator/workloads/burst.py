"""The same prompt many times at once: a page that everybody opens, a job that samples many answers."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.simulator.tokens import Ids, Text
from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.hot_prefix import SharedPrefixes
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage


@dataclass(frozen=True, slots=True)
class Bursts:
    """`calm` traffic, and every `every_s` seconds `size` requests with one new prompt, within `within_s`."""

    calm: SharedPrefixes
    size: int
    every_s: float
    within_s: float
    prompt_tokens: int
    answer: Lengths

    def sessions(self, seed: int) -> Iterator[Session]:
        yield from self.calm.sessions(seed)
        at, number = self.every_s, 0
        while at < self.calm.duration_s:
            yield from self._burst(seed, number, at)
            at, number = at + self.every_s, number + 1

    def _burst(self, seed: int, number: int, at: float) -> Iterator[Session]:
        prompt = Ids(Text(seed_of(seed, "burst", number), self.prompt_tokens).ids())
        rng = random.Random(seed_of(seed, "burst's times", number))
        for position in range(self.size):
            answer = Text(seed_of(seed, "burst's answer", number, position), self.answer.draw(rng))
            yield Session(at + rng.uniform(0.0, self.within_s), (Turn(prompt, answer),))


BURST = SingleStage(
    name="burst",
    about="calm traffic, and every 15 s 80 requests with the same new prompt of 8k tokens within 0.1 s, 4 pods",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4),
    traffic=Bursts(
        calm=SharedPrefixes(
            prefixes=60,
            skew=0.8,
            prefix=Lengths(3000, 0.3, 1000, 6000),
            question=Lengths(200, 0.5, 30, 800),
            answer=Lengths(180, 0.5, 20, 600),
            rate=22.0,
            duration_s=100.0,
        ),
        size=80,
        every_s=15.0,
        within_s=0.1,
        prompt_tokens=8000,
        answer=Lengths(200, 0.3, 50, 500),
    ),
)
