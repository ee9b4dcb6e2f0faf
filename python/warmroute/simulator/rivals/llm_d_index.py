"""What llm-d's endpoint picker knows of caches: by KV events (precise) or by what it sent (approximate).

Both give, for each candidate, the share of a prompt's blocks that it is taken to hold.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from warmroute.policy import Candidate
from warmroute.router import Decision
from warmroute.simulator.rivals.block_lru import BlockLru
from warmroute.simulator.rivals.in_flight import chosen_candidate
from warmroute.simulator.rivals.prompt_blocks import PromptBlocks
from warmroute.worker import LaneKey

SPECULATION_S = 2.0
HOST_WEIGHT = 0.8
DEFAULT_LRU_BLOCKS = 31_250


class MatchSource(Protocol):
    """Where matches come from."""

    def shares(self, token_ids: Sequence[int] | None, candidates: Sequence[Candidate], now: float) -> list[float]:
        """For each candidate the matched part of the prompt's blocks, 0 to 1."""

    def sent(self, decision: Decision) -> None:
        """Learn from a request that was routed."""


class PreciseMatches:
    """The engines' own events, and blocks of prompts sent a moment ago, which are believed for `speculation_s`.

    GPU blocks count whole, those in the host's memory 0.8. What our router merely expects does not count.
    """

    def __init__(self, speculation_s: float = SPECULATION_S) -> None:
        self._speculation_s = speculation_s
        self._blocks = PromptBlocks()
        self._believed: dict[LaneKey, dict[int, float]] = {}
        self._endings: deque[tuple[float, LaneKey, array[int]]] = deque()

    def shares(self, token_ids: Sequence[int] | None, candidates: Sequence[Candidate], now: float) -> list[float]:
        return [self._share(token_ids, candidate, now) for candidate in candidates]

    def sent(self, decision: Decision) -> None:
        now, lane = decision.decided_at, decision.lane.key
        self._forget(now)
        hashes = self._blocks.of(decision.request.token_ids, chosen_candidate(decision).block_size)
        until = now + self._speculation_s
        self._believed.setdefault(lane, {}).update(dict.fromkeys(hashes, until))
        self._endings.append((until, lane, hashes))

    def _share(self, token_ids: Sequence[int] | None, candidate: Candidate, now: float) -> float:
        total = candidate.prompt_tokens // candidate.block_size
        if total == 0:
            return 0.0
        held = candidate.overlap
        confirmed = held.device + held.host
        believed = self._believed.get(candidate.lane.key)
        if believed:
            hashes = self._blocks.of(token_ids, candidate.block_size)
            beyond = _leading(hashes, confirmed, believed, now)
        else:
            beyond = 0
        return (held.device + HOST_WEIGHT * held.host + beyond) / total

    def _forget(self, now: float) -> None:
        while self._endings and self._endings[0][0] <= now:
            _, lane, hashes = self._endings.popleft()
            believed = self._believed[lane]
            for block in hashes:
                if believed.get(block, now + 1.0) <= now:
                    del believed[block]


def _leading(hashes: "array[int]", start: int, believed: dict[int, float], now: float) -> int:
    """How many blocks in a row, from `start` on, are believed to be there."""
    at = start
    while at < len(hashes) and believed.get(hashes[at], now) > now:
        at += 1
    return at - start


class ApproximateMatches:
    """Blocks that were sent, an LRU per worker; evictions are never seen.

    most_blocks: of a prompt, those that are looked at.
    capacity: blocks kept for each worker; None: as many as its engine has, 31,250 where that is not known.
    """

    def __init__(self, block_tokens: int, most_blocks: int, capacity: int | None) -> None:
        self._block_tokens, self._most_blocks, self._capacity = block_tokens, most_blocks, capacity
        self._blocks = PromptBlocks()
        self._sent = BlockLru()

    def shares(self, token_ids: Sequence[int] | None, candidates: Sequence[Candidate], now: float) -> list[float]:
        hashes = self._of(token_ids)
        if not hashes:
            return [0.0] * len(candidates)
        matched = self._sent.matched(hashes)
        return [matched.get(candidate.lane.key, 0) / len(hashes) for candidate in candidates]

    def sent(self, decision: Decision) -> None:
        capacity = self._capacity or decision.worker.capacity_blocks or DEFAULT_LRU_BLOCKS
        self._sent.add(decision.lane.key, self._of(decision.request.token_ids), capacity)

    def _of(self, token_ids: Sequence[int] | None) -> "array[int]":
        hashes = self._blocks.of(token_ids, self._block_tokens)
        return hashes if len(hashes) <= self._most_blocks else hashes[: self._most_blocks]


class NoMatches:
    """For blends that do not look at caches."""

    def shares(self, token_ids: Sequence[int] | None, candidates: Sequence[Candidate], now: float) -> list[float]:
        return [0.0] * len(candidates)

    def sent(self, decision: Decision) -> None:
        pass
