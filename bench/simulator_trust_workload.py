"""The work that is simulated and really sent: growing conversations on a few engines that the answers come back to.

The answers are those that an emulated engine gives: they follow from the prompt alone. So the prompts of later turns
are known beforehand, and both sides get the same ids at the same dependences.
"""

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from warmroute.demo.options import MODEL
from warmroute.emulator.answer import AnswerBook
from warmroute.engine_model.presets import QWEN3_32B_L40S_TP4
from warmroute.simulator.tokens import Ids
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn
from warmroute.tokenizer import LocalTokenizer

# The slowest of the presets, so that one machine can play four of them, with room for a quarter of all prefixes each.
ENGINE = replace(QWEN3_32B_L40S_TP4.options, num_blocks=64_000 // 64)
WORKERS = 4
_FLEET = FleetPlan((ENGINE,) * WORKERS)


@dataclass(frozen=True, slots=True)
class Conversations:
    """Conversations begin at random over `over_s` seconds, each behind the instructions of one of several agents.

    The work is the same for every seed; only the moments differ, by less than `spread_s`. That much no client and no
    network repeats, and a full fleet answers to it with other queues: which of two requests came first decides what is
    evicted. Without it one simulation repeated would look like certainty.
    """

    work: int = 0
    spread_s: float = 0.01
    agents: int = 24
    sessions_per_s: float = 1.2
    over_s: float = 60.0
    turns: int = 6
    instructions: int = 3_000
    message: tuple[int, int] = (200, 600)
    answer: tuple[int, int] = (24, 72)
    think_s: tuple[float, float] = (2.0, 6.0)
    name: str = "conversations"
    about: str = "growing conversations with a few agents, small enough to be played in real time"
    fleet: FleetPlan = _FLEET

    def stages(self, seed: int = 0) -> Iterator[Stage]:
        rng = random.Random(f"{self.name}/{self.work}/moments/{seed}")
        yield Stage("conversations", [self._shifted(rng, session) for session in self._sessions()])

    def _shifted(self, rng: random.Random, session: Session) -> Session:
        turns = [replace(turn, wait_s=turn.wait_s + rng.uniform(0.0, self.spread_s)) for turn in session.turns]
        return replace(session, turns=turns)

    def _sessions(self) -> list[Session]:
        tokenizer = _tokenizer()
        writer = _Writer(AnswerBook(tokenizer, MODEL, 1), tokenizer.vocab_size)
        rng = random.Random(f"{self.name}/{self.work}")
        agents = [writer.text(rng, self.instructions) for _ in range(self.agents)]
        sessions, start_s = list[Session](), rng.expovariate(self.sessions_per_s)
        while start_s < self.over_s:
            sessions.append(Session(start_s, self._turns(writer, rng, rng.choice(agents)), f"s{len(sessions)}"))
            start_s += rng.expovariate(self.sessions_per_s)
        return sessions

    def _turns(self, writer: "_Writer", rng: random.Random, instructions: "array[int]") -> list[Turn]:
        turns, history = list[Turn](), instructions
        for place in range(self.turns):
            prompt = history + writer.text(rng, rng.randint(*self.message))
            answer = writer.answer(prompt, rng.randint(*self.answer))
            after, wait_s = (place - 1, rng.uniform(*self.think_s)) if place else (None, 0.0)
            turns.append(Turn(Ids(prompt), Ids(answer), after, wait_s, len(answer)))
            history = prompt + answer
        return turns


def answer_text(turn: Turn) -> str:
    """The text of a turn's answer."""
    return "".join(_tokenizer().decode([token]) for token in turn.answer.ids())


@lru_cache
def _tokenizer() -> LocalTokenizer:
    return LocalTokenizer.load(MODEL)


@dataclass(frozen=True, slots=True)
class _Writer:
    book: AnswerBook
    vocabulary: int

    def text(self, rng: random.Random, tokens: int) -> "array[int]":
        return array("I", [rng.randrange(self.vocabulary) for _ in range(tokens)])

    def answer(self, prompt: "array[int]", tokens: int) -> "array[int]":
        return array("I", self.book.write(prompt, tokens, ignore_eos=True).token_ids)
