"""Conversations with a few applications, which grow turn by turn; people and tools take their time in between."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.simulator.tokens import Ids, Text
from warmroute.simulator.workload import FleetPlan, Session
from warmroute.simulator.workloads.arrivals import poisson_process
from warmroute.simulator.workloads.conversation import Round, growing
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2
from warmroute.simulator.workloads.seeds import seed_of
from warmroute.simulator.workloads.single_stage import SingleStage


@dataclass(frozen=True, slots=True)
class Conversations:
    """`rate` conversations begin in every second of the first `duration_s`, each with one of `applications`.

    turns: least and most. think_s: mean of an exponential, cut at four times as much.
    """

    applications: int
    opening: Lengths
    message: Lengths
    answer: Lengths
    turns: tuple[int, int]
    think_s: float
    rate: float
    duration_s: float

    def sessions(self, seed: int) -> Iterator[Session]:
        openings = [self._opening(seed, application) for application in range(self.applications)]
        starts = poisson_process(self.rate, self.duration_s, random.Random(seed_of(seed, "starts")))
        for number, start_s in enumerate(starts):
            own_seed = seed_of(seed, "conversation", number)
            rng = random.Random(own_seed)
            opening = openings[rng.randrange(self.applications)]
            rounds = [self._round(rng, waits=turn > 0) for turn in range(rng.randint(*self.turns))]
            yield Session(start_s, growing(opening, rounds, own_seed), name=f"conversation-{number}")

    def _opening(self, seed: int, application: int) -> Ids:
        length = self.opening.draw(random.Random(seed_of(seed, "length", application)))
        return Ids(Text(seed_of(seed, "application", application), length).ids())

    def _round(self, rng: random.Random, *, waits: bool) -> Round:
        think_s = min(rng.expovariate(1 / self.think_s), 4 * self.think_s) if waits else 0.0
        return Round(self.message.draw(rng), self.answer.draw(rng), think_s)


TALKS = Conversations(
    applications=12,
    opening=Lengths(2500, 0.4, 500, 6000),
    message=Lengths(220, 1.0, 20, 3000),
    answer=Lengths(220, 0.6, 20, 1000),
    turns=(5, 15),
    think_s=3.0,
    rate=12.0,
    duration_s=23.0,
)

MULTI_TURN = SingleStage(
    name="multi-turn",
    about="conversations with 12 applications that grow by about 500 tokens a turn, with pauses in between, 4 pods",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 4),
    traffic=TALKS,
)
