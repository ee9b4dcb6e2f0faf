"""Small worlds whose times can be told in the head, and arms whose choices are known beforehand."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warmroute.engine_model import EngineOptions
from warmroute.policy import POLICIES, Candidate, Cost, Policy, PolicyRequest
from warmroute.simulator.arm import Arm
from warmroute.simulator.ledger import Ledger
from warmroute.simulator.tokens import Joined, Text, Tokens
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn
from warmroute.simulator.world import World

# A token takes 10 ms to decode, however many do, and a prompt of 100 tokens a second; 0.1 s go before.
PLAIN = EngineOptions(
    block_size=16,
    num_blocks=1_000,
    step_base_s=0.01,
    step_per_running_s=0.0,
    step_per_context_token_s=0.0,
    prefill_tokens_per_s=100.0,
    prefill_context_tokens=0.0,
    mixed_step_factor=1.0,
    request_overhead_s=0.1,
)


class First:
    """The first of the workers that may have a request."""

    name = "first"
    unit = "places"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [Cost(float(candidate.worker.name.rpartition("-")[2]), {}) for candidate in candidates]


def arm(make: Callable[[], Policy] = First, **more: object) -> Arm:
    return Arm("made", "made by hand", make, "here", **more)  # type: ignore[arg-type]


ROUND_ROBIN = arm(POLICIES["round-robin"])


def single(start_s: float, prompt: int = 16, answer: int = 5, seed: int = 0) -> Session:
    """One request with a text of its own."""
    return Session(start_s, (Turn(Text(100 + seed, prompt), Text(200 + seed, answer)),))


def played(
    arm: Arm, stages: Sequence[Stage] | Sequence[Session], engines: Sequence[EngineOptions], **plan: object
) -> tuple[Ledger, World]:
    """What comes of stages, or of one made of these sessions; the world is whole afterwards."""
    plans = FleetPlan(engines, **plan)  # type: ignore[arg-type]
    world = World(arm, arm.make(), plans, len(engines), seed=1)
    world.play(_stages(stages))
    world.check_integrity()
    return world.ledger, world


def _stages(stages: Sequence[Stage] | Sequence[Session]) -> list[Stage]:
    whole = [each for each in stages if isinstance(each, Stage)]
    return whole or [Stage("made", [each for each in stages if isinstance(each, Session)])]


@dataclass(frozen=True)
class Talk:
    """What a random session is made from: see `talks`."""

    sessions: int = 12
    turns: int = 4
    prefixes: int = 3
    over_s: float = 5.0


def talks(seed: int, shape: Talk | None = None) -> list[Session]:
    """Growing conversations behind a few shared prefixes; every third one has two turns side by side."""
    shape, rng = shape or Talk(), random.Random(seed)
    return [_talk(rng, number, shape) for number in range(shape.sessions)]


def _talk(rng: random.Random, number: int, shape: Talk) -> Session:
    parts: list[Tokens] = [Text(rng.randrange(shape.prefixes), rng.choice([40, 160, 300]))]
    turns: list[Turn] = []
    for place in range(shape.turns):
        parts.append(Text(1_000 * (number + 1) + place, rng.randint(1, 60)))
        answer = Text(500_000 + 1_000 * number + place, rng.randint(1, 70))
        after = None if place == 0 else max(0, place - 1 - (place % 2 and number % 3 == 0))
        turns.append(Turn(Joined(tuple(parts)), answer, after, rng.choice([0.0, 0.3, 1.0])))
        parts.append(answer)
    return Session(rng.uniform(0.0, shape.over_s), turns, f"s{number}")
