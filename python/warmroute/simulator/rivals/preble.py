"""Preble's global scheduler, E2 (2024): exploit the longest match, or explore by predicted seconds.

    exploit    where the cached part of the prompt is longer than the rest: the holder of the longest match, of several
               the one with the least load; unless its load is over 15 x the least one, then the prefix is replicated
    explore    least load + eviction + prefill
      load     prefill and decode seconds of everything that was sent there within three minutes
      eviction seconds to compute again what would have to go, each block times its hits / requests there
      prefill  of the uncached part

The scheduler hears of evictions and knows at once what it sent: the overlap here, with what is merely expected. Which
blocks would go it tells from an LRU of what was sent, in blocks of 64 tokens; a block nobody used for three minutes
costs nothing. Decode seconds: mean length of answers (45 tokens until there are any) x the worker's median time per
token over its last 200 answers (0.15 s at first).
"""

import random
import statistics
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import takewhile

from warmroute.policy import Candidate, Cost, PolicyRequest
from warmroute.router import Decision, Outcome
from warmroute.simulator.arm import Arm, Knob
from warmroute.simulator.rivals.choice import taking
from warmroute.simulator.rivals.in_flight import chosen_candidate
from warmroute.simulator.rivals.learner import Learner
from warmroute.simulator.rivals.prompt_blocks import PromptBlocks
from warmroute.worker import LaneKey

WINDOW_S = 180.0
MOST_TIMES = 15.0
FIRST_ANSWER_TOKENS = 45.0
FIRST_TOKEN_S = 0.15
_TIMES_KEPT = 200
_BLOCK_TOKENS = 64


class RecentWork:
    """Seconds of work that were sent to one lane within the window, and by how many requests."""

    def __init__(self) -> None:
        self._sent: deque[tuple[float, float]] = deque()
        self._seconds = 0.0

    def add(self, now: float, seconds: float) -> None:
        self._sent.append((now, seconds))
        self._seconds += seconds

    def forget(self, now: float) -> None:
        """Drop what has left the window."""
        while self._sent and self._sent[0][0] <= now - WINDOW_S:
            self._seconds -= self._sent.popleft()[1]
        if not self._sent:
            self._seconds = 0.0

    def within(self, now: float) -> tuple[float, int]:
        """Both, at `now`."""
        over = [seconds for at, seconds in takewhile(lambda each: each[0] <= now - WINDOW_S, self._sent)]
        left = len(self._sent) - len(over)
        return (self._seconds - sum(over) if left else 0.0), left


class ResidentBlocks:
    """What one lane is taken to hold, the least recently used first, tails before heads; with hits since the window."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def use(self, hashes: Sequence[int], now: float, capacity: int) -> None:
        """A prompt of these blocks was sent; beyond `capacity` the oldest go."""
        for block in reversed(hashes):
            used_at, hits = self._blocks.get(block, (now, 0))
            self._blocks[block] = (now, hits + 1 if now - used_at < WINDOW_S else 1)
            self._blocks.move_to_end(block)
        while len(self._blocks) > capacity:
            self._blocks.popitem(last=False)

    def hits_lost(self, blocks: int, now: float) -> int:
        """The hits, within the window, of the blocks that would go first."""
        lost = 0
        for (used_at, hits), _ in zip(self._blocks.values(), range(blocks), strict=False):
            lost += hits if now - used_at < WINDOW_S else 0
        return lost


class AnswerTimes:
    """How long answers are, and how fast each lane gives them."""

    def __init__(self) -> None:
        self._answers = self._tokens = 0
        self._per_token: dict[LaneKey, deque[float]] = {}

    def learn(self, lane: LaneKey, outcome: Outcome) -> None:
        tokens = outcome.output_tokens
        if not outcome.completed or outcome.refused or not tokens:
            return
        self._answers += 1
        self._tokens += tokens
        if outcome.first_byte_at is not None and tokens > 1:
            times = self._per_token.setdefault(lane, deque((FIRST_TOKEN_S,), maxlen=_TIMES_KEPT))
            times.append((outcome.ended_at - outcome.first_byte_at) / (tokens - 1))

    def decode_s(self, lane: LaneKey) -> float:
        """Seconds that the next answer of this lane should take."""
        tokens = self._tokens / self._answers if self._answers else FIRST_ANSWER_TOKENS
        return tokens * statistics.median(self._per_token.get(lane, (FIRST_TOKEN_S,)))


class PreblePolicy(Learner):
    """`most_times`: how many times the least load a holder may have before its prefixes are replicated."""

    name = "preble"
    unit = "seconds to explore; to exploit 0 for the holder, 1 for the others"

    def __init__(self, most_times: float = MOST_TIMES) -> None:
        self._most_times = most_times
        self._prompts = PromptBlocks()
        self._work: dict[LaneKey, RecentWork] = {}
        self._resident: dict[LaneKey, ResidentBlocks] = {}
        self._times = AnswerTimes()

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        recent = [self._recent(candidate.lane.key, request.now) for candidate in candidates]
        load = [seconds for seconds, _ in recent]
        cached = [min(each.overlap.blocks * each.block_size, each.prompt_tokens) for each in candidates]
        if (holder := self._holder(cached, load, request.prompt_tokens)) is not None:
            terms = [{"load_s": seconds, "cached": float(tokens)} for seconds, tokens in zip(load, cached, strict=True)]
            chosen = [i for i, tokens in enumerate(cached) if tokens == cached[holder] and load[i] == load[holder]]
            return taking(chosen, terms)
        return [
            self._explored(candidate, tokens, seconds, requests, request.now)
            for candidate, tokens, (seconds, requests) in zip(candidates, cached, recent, strict=True)
        ]

    def decided(self, decision: Decision) -> None:
        candidate, lane, now = chosen_candidate(decision), decision.lane.key, decision.decided_at
        uncached = candidate.prompt_tokens - min(
            candidate.overlap.blocks * candidate.block_size, candidate.prompt_tokens
        )
        for work in self._work.values():
            work.forget(now)
        seconds = uncached / candidate.rates.prefill_tokens_per_s + self._times.decode_s(lane)
        self._work.setdefault(lane, RecentWork()).add(now, seconds)
        hashes = self._prompts.of(decision.request.token_ids, _BLOCK_TOKENS)
        capacity = _capacity_blocks(candidate)
        if capacity is not None:
            self._resident.setdefault(lane, ResidentBlocks()).use(hashes, now, capacity)

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        self._times.learn(decision.lane.key, outcome)

    def _recent(self, lane: LaneKey, now: float) -> tuple[float, int]:
        work = self._work.get(lane)
        return (0.0, 0) if work is None else work.within(now)

    def _holder(self, cached: Sequence[int], load: Sequence[float], prompt_tokens: int) -> int | None:
        """Whom to exploit; None: explore."""
        most = max(cached)
        if most <= prompt_tokens - most:
            return None
        holder = min((position for position, tokens in enumerate(cached) if tokens == most), key=load.__getitem__)
        return None if load[holder] > self._most_times * min(load) and min(load) < load[holder] else holder

    def _explored(self, candidate: Candidate, cached: int, load_s: float, requests: int, now: float) -> Cost:
        rate = candidate.rates.prefill_tokens_per_s
        uncached = candidate.prompt_tokens - cached
        hits = self._hits_lost(candidate, uncached, now)
        eviction_s = hits * _BLOCK_TOKENS / rate / requests if requests else 0.0
        terms = {"load_s": load_s, "eviction_s": eviction_s, "prefill_s": uncached / rate}
        return Cost(sum(terms.values()), terms)

    def _hits_lost(self, candidate: Candidate, uncached: int, now: float) -> int:
        resident, capacity = self._resident.get(candidate.lane.key), _capacity_blocks(candidate)
        if resident is None or capacity is None:
            return 0
        return resident.hits_lost(len(resident) + -(-uncached // _BLOCK_TOKENS) - capacity, now)


def _capacity_blocks(candidate: Candidate) -> int | None:
    """The worker's cache in blocks of ours; None where it does not tell."""
    worker = candidate.worker
    if worker.capacity_blocks is None or worker.block_size is None:
        return None
    return worker.capacity_blocks * worker.block_size // _BLOCK_TOKENS


ARM = Arm(
    "preble",
    "the longest match where it is most of the prompt; else least load, eviction and prefill in seconds",
    PreblePolicy,
    "Srivatsa et al., Preble, arXiv:2407.00023; WukLab/preble, global_scheduler_with_time.py",
    knob=Knob("replicated above x least load", MOST_TIMES, (1.5, 2.0, 4.0, 8.0, MOST_TIMES, 50.0), PreblePolicy),
)
