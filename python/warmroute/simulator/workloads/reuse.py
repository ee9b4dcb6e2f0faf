"""What of a workload could be reused at best, found without a simulation."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from warmroute.block import BlockHashes, Namespace, hash_blocks
from warmroute.simulator.tokens import Tokens
from warmroute.simulator.workload import Session, Stage, Turn, Workload


@dataclass(frozen=True, slots=True)
class Reuse:
    """Counts of a workload; `cached_tokens` are the prompt tokens in the longest prefix that had been seen before."""

    sessions: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    cached_tokens: int = 0

    @property
    def cached_share(self) -> float:
        """Of the prompt tokens: no routing, and no size of cache, finds more."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def reuse(workload: Workload, seed: int, block_size: int | None = None) -> Reuse:
    """The reuse in one cache without end that keeps all prompts and answers, in blocks of `block_size` tokens.

    block_size: by default that of the workload's first engine. Requests come in the order of their times as if every
    answer took no time. What is not counted is kept as well: warm-up stages are, in the cache.
    """
    cache = EndlessCache(block_size or workload.fleet.engine(0).block_size)
    sessions = requests = prompt_tokens = answer_tokens = cached_tokens = 0
    for stage in workload.stages(seed):
        for turn in in_order(stage):
            cached = cache.put(turn.prompt, turn.answer)
            if stage.counted:
                requests += 1
                prompt_tokens += len(turn.prompt)
                answer_tokens += len(turn.answer)
                cached_tokens += cached
        sessions += len(stage.sessions) if stage.counted else 0
    return Reuse(sessions, requests, prompt_tokens, answer_tokens, cached_tokens)


class EndlessCache:
    """A cache of blocks of so many tokens that never has to let one go."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._held = set[int]()

    def put(self, prompt: Tokens, answer: Tokens) -> int:
        """Keep both; the tokens of the prompt's full blocks that were there before."""
        hashes = hash_blocks(prompt.ids() + answer.ids(), self._block_size, Namespace())
        found = self._found(hashes)
        self._held.update(hashes[found + extra] for extra in range(len(hashes) - found))
        return min(found, len(prompt) // self._block_size) * self._block_size

    def _found(self, hashes: BlockHashes) -> int:
        """The first blocks that are held. A hash covers what is before it, so where one is held all before it are."""
        held, lacking = 0, len(hashes)
        while held < lacking:
            middle = (held + lacking) // 2
            if hashes[middle] in self._held:
                held = middle + 1
            else:
                lacking = middle
        return held


def in_order(stage: Stage) -> Iterator[Turn]:
    """The stage's turns by time, where answers take none."""
    times = (_times(session, position) for position, session in enumerate(stage.sessions))
    for _, session, turn in heapq.merge(*times):
        yield stage.sessions[session].turns[turn]


def _times(session: Session, position: int) -> list[tuple[float, int, int]]:
    at = list[float]()
    for turn in session.turns:
        at.append((session.start_s if turn.after is None else at[turn.after]) + turn.wait_s)
    return sorted((time, position, number) for number, time in enumerate(at))
