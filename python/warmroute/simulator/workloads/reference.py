"""The published benchmark: a ladder of rates over prompts that share prefixes in groups.

As its generator works (inference-perf's `shared_prefix` data and stages, September 2025): the prompts are shuffled
once; in every stage request i uses prompt i modulo their number, from 0 again; a stage has int(rate x duration)
requests and the next one waits until all of them are answered. No answer is the same text twice: they were sampled.

Lengths are the counted ones. The generator asks for 6,000 tokens of prefix, 1,200 of question and 1,000 of answer, but
makes prompts of random token ids, whose text has other tokens: the published reports count 7,584 a prompt and 937 an
answer. The prompt is split in the ratio that was asked for: 6,320 and 1,264.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from warmroute.simulator.tokens import Ids, Joined, Text
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn
from warmroute.simulator.workloads.arrivals import Arrivals, constant_rate, poisson_by_second
from warmroute.simulator.workloads.pods import LLAMA_70B_H100_TP4, QWEN_32B_H100_TP2, QWEN_32B_H100_TP2_2025
from warmroute.simulator.workloads.seeds import seed_of

Rung = tuple[float, float]
"""Rate in requests per second, duration in seconds."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Stages of rising rates; the first of them warms the caches up and is not counted.

    max_tokens: the length of answer that the client asks for, which is what a router sees.
    """

    name: str
    about: str
    fleet: FleetPlan
    rungs: Sequence[Rung]
    arrivals: Arrivals
    groups: int
    prompts_per_group: int
    prefix_tokens: int
    question_tokens: int
    answer_tokens: int
    max_tokens: int

    def stages(self, seed: int) -> Iterator[Stage]:
        prompts = self._prompts(seed)
        for number, (rate, duration_s) in enumerate(self.rungs):
            times = self.arrivals(rate, duration_s, random.Random(seed_of(seed, self.name, "times", number)))
            sessions = [
                Session(
                    at, (Turn(prompts[i % len(prompts)], self._answer(seed, number, i), max_tokens=self.max_tokens),)
                )
                for i, at in enumerate(times)
            ]
            name = f"{rate:g}/s" if number else "warm-up"
            yield Stage(name, sessions, counted=number > 0, rate=rate)

    def _prompts(self, seed: int) -> list[Ids]:
        """All prompts in the order in which every stage uses them; each is used 20 times, so its ids are kept."""
        prompts = [
            Ids(Joined((self._prefix(seed, group), self._question(seed, group, number))).ids())
            for group in range(self.groups)
            for number in range(self.prompts_per_group)
        ]
        random.Random(seed_of(seed, self.name, "order")).shuffle(prompts)
        return prompts

    def _prefix(self, seed: int, group: int) -> Text:
        return Text(seed_of(seed, self.name, "prefix", group), self.prefix_tokens)

    def _question(self, seed: int, group: int, number: int) -> Text:
        return Text(seed_of(seed, self.name, "question", group, number), self.question_tokens)

    def _answer(self, seed: int, stage: int, position: int) -> Text:
        return Text(seed_of(seed, self.name, "answer", stage, position), self.answer_tokens)


_RUNGS_73: tuple[Rung, ...] = (
    (15, 50),
    *((3, 20), (10, 20), (15, 20), (20, 38), (22, 34), (25, 30), (30, 25), (35, 21)),
    *((40, 38), (43, 36), (46, 33), (49, 30), (52, 29), (55, 27), (57, 26), (60, 25)),
)
_RUNGS_37: tuple[Rung, ...] = (
    (9, 30),
    *((3, 210), (4, 180), (5, 120), (6, 120), (8, 90), (10, 70), (12, 60), (15, 50), (20, 50)),
)

REFERENCE = Ladder(
    name="reference",
    about="the published benchmark: 150 prefixes x 5 questions, 3 to 60 requests/s, 8 pods of 2 H100s as in 2026",
    fleet=FleetPlan((QWEN_32B_H100_TP2,) * 8),
    rungs=_RUNGS_73,
    arrivals=poisson_by_second,
    groups=150,
    prompts_per_group=5,
    prefix_tokens=6320,
    question_tokens=1264,
    answer_tokens=937,
    max_tokens=1000,
)

REFERENCE_2025 = replace(
    REFERENCE,
    name="reference-2025",
    about="the same ladder on the slower and smaller pods of its first publication in 2025",
    fleet=FleetPlan((QWEN_32B_H100_TP2_2025,) * 8),
)

# Asked for are 8,000 + 1,000 tokens and 1,000 of answer; what was counted is not published, so it is taken to differ as
# in the other run.
REFERENCE_37 = Ladder(
    name="reference-37",
    about="the published run at 37 % of the cache: 83 prefixes x 3 questions, 3 to 20 requests/s, 4 pods of 70B",
    fleet=FleetPlan((LLAMA_70B_H100_TP4,) * 4),
    rungs=_RUNGS_37,
    arrivals=constant_rate,
    groups=83,
    prompts_per_group=3,
    prefix_tokens=8427,
    question_tokens=1053,
    answer_tokens=937,
    max_tokens=1000,
)
