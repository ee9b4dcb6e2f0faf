"""Conversations: each turn's prompt is everything said before, and something new."""

from collections.abc import Iterable
from dataclasses import dataclass

from warmroute.simulator.tokens import Joined, Text, Tokens
from warmroute.simulator.workload import Turn
from warmroute.simulator.workloads.seeds import seed_of


@dataclass(frozen=True, slots=True)
class Round:
    """What one turn adds: a message (or a tool's result), after `wait_s`, and the answer to it. Lengths in tokens."""

    message_tokens: int
    answer_tokens: int
    wait_s: float


def growing(opening: Tokens, rounds: Iterable[Round], seed: int) -> list[Turn]:
    """One turn a round, each after the one before. All prompts begin with `opening`; answers stay word for word."""
    said, turns = [opening], list[Turn]()
    for number, spoken in enumerate(rounds):
        said.append(Text(seed_of(seed, "message", number), spoken.message_tokens))
        answer = Text(seed_of(seed, "answer", number), spoken.answer_tokens)
        turns.append(Turn(Joined(tuple(said)), answer, after=number - 1 if number else None, wait_s=spoken.wait_s))
        said.append(answer)
    return turns
