"""Fleets whose caches are full, the prompts that meet them, and the requests in flight: for bench/decision.py."""

import heapq
import random
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from warmroute.block import BlockHashes, Tier
from warmroute.diagnostics.audit import Audit
from warmroute.diagnostics.metrics import RouterMetrics
from warmroute.policy import Policy
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Decision, Outcome, PolicyObserver, Router, RouteRequest, RouterObserver
from warmroute.worker import LaneKey, LoadReport, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

BLOCK_SIZE = 16
MODEL = "m"
PREFILL_TOKENS_PER_S, STEP_S, OUTPUT_TOKENS = 18_000.0, 0.014, 256
LOOK_S = 1.0
"""Between two looks at each worker's load, as by the prober."""


class Case(StrEnum):
    """Who holds a prompt."""

    NOBODY = "nobody"
    ONE = "one"
    SOME = "some"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Shape:
    """What is made. tokens: the length of prompts by name; sharers: who holds a prompt of `Case.SOME`, at most.

    head_part: the part of a prompt of `Case.HEAD` that all workers hold. new_blocks: at the end of a prompt, that
    nobody holds. Of a large fleet each worker holds fewer blocks, so that all processes together stay within 4 GiB.
    Each worker gets a request every `gap_s` in the mean.
    """

    blocks_per_worker: int = 20_000
    most_pairs: int = 16_000_000
    tokens: Mapping[str, int] = field(default_factory=lambda: {"100k": 100_000, "8k": 8_000})
    prompts: int = 24
    sharers: int = 16
    head_part: float = 0.1
    new_blocks: int = 50
    gap_s: float = 6.0

    def blocks(self, workers: int) -> int:
        """That each of so many workers holds."""
        return min(self.blocks_per_worker, self.most_pairs // workers)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids as the tokenizer leaves them, and how many leading blocks each lane holds."""

    case: Case
    length: str
    ids: "array[int]"
    held: Mapping[LaneKey, int]

    def request(self) -> RouteRequest:
        """With ids that have just been written."""
        return RouteRequest("decision", MODEL, array("I", self.ids), len(self.ids), stream=True)


class Caches:
    """One index in which every lane holds exactly as many blocks as its worker has room for, and the prompts."""

    def __init__(self, workers: int, shape: Shape, seed: int) -> None:
        self.index = PrefixIndex()
        self.workers = workers
        self.shape = shape
        self._rng = random.Random(f"{seed}/{workers}")
        self.blocks = shape.blocks(workers)
        self._room = [self.blocks] * workers
        for lane in range(workers):
            self.index.add_worker(lane, self.blocks)
        # Of a small fleet a few long prompts fill the caches already.
        count = max(1, min(shape.prompts, workers // 2))
        self.prompts = [
            prompt for length in shape.tokens for case in Case for prompt in self._prompts(case, length, count)
        ]
        for lane in range(workers):
            while self._room[lane]:
                blocks = min(1_000, self._room[lane])
                self._store(lane, self._ids(blocks), self._names(blocks), blocks)
        assert [self.index.blocks(lane) for lane in range(workers)] == [self.blocks] * workers

    def _prompts(self, case: Case, length: str, count: int) -> Iterator[Prompt]:
        blocks = self.shape.tokens[length] // BLOCK_SIZE
        shared = int(blocks * self.shape.head_part) if case is Case.HEAD else 0
        head, names_of_head = self._ids(shared), self._names(shared)
        for lane in range(self.workers if shared else 0):
            self._store(lane, head, names_of_head, shared)
        for _ in range(count):
            ids, names = head + self._ids(blocks - shared), names_of_head + self._names(blocks - shared)
            held = {LaneKey(lane): shared for lane in range(self.workers if shared else 0)}
            for lane, depth in self._holders(case, blocks, shared):
                self._store(lane, ids, names, depth, held.get(lane, 0))
                held[lane] = depth
            yield Prompt(case, length, ids, held)

    def _holders(self, case: Case, blocks: int, shared: int) -> list[tuple[LaneKey, int]]:
        """Lanes with room, the emptiest first, and how deep each holds a prompt."""
        deepest = blocks - self.shape.new_blocks
        if case is Case.NOBODY:
            return []
        emptiest = sorted(range(self.workers), key=lambda lane: (-self._room[lane], self._rng.random()))
        if case is Case.SOME:
            lanes = emptiest[: min(self.shape.sharers, self.workers // 2)]
            return [(LaneKey(lane), self._rng.randrange(shared + 1, deepest)) for lane in lanes]
        return [(LaneKey(emptiest[0]), deepest)]

    def _store(self, lane: int, ids: "array[int]", names: "array[int]", end: int, begin: int = 0) -> None:
        """Blocks `begin` to `end` of a prompt, as an engine's event tells them."""
        self._room[lane] -= end - begin
        assert self._room[lane] >= 0, "the prompts need more room than there is"
        parent = names[begin - 1] if begin else None
        token_ids = ids[begin * BLOCK_SIZE : end * BLOCK_SIZE]
        self.index.store(lane, Tier.DEVICE, parent, names[begin:end], token_ids, BLOCK_SIZE)

    def _ids(self, blocks: int) -> "array[int]":
        return array("I", self._rng.randbytes(4 * BLOCK_SIZE * blocks))

    def _names(self, blocks: int) -> "array[int]":
        return array("Q", self._rng.randbytes(8 * blocks))


class Taken(NamedTuple):
    """One decision: whose prompt, its microseconds, by the clock and of the processor, and those of each request that
    was settled before it.
    """

    length: str
    case: Case
    us: float
    cpu_us: float
    settled_us: list[float]


@dataclass(order=True, slots=True)
class _Happening:
    at: float
    number: int
    decision: Decision = field(compare=False)
    first_byte_at: float | None = field(compare=False)


class Served:
    """A router as `warmroute serve` has it, over caches that others look up as well, under a steady load.

    Requests come at random times and are answered at the speed that the router believes in; time is virtual. What a
    decision enters into the index is withdrawn at once, so that a prompt stays what its case says.
    """

    def __init__(self, caches: Caches, policy: Callable[[], Policy], seed: int) -> None:
        observers: list[RouterObserver] = [RouterMetrics(), Audit(lambda *_: None)]
        self.router = Router(WorkerTable(), caches.index, policy(), observers=observers)
        self.router.observe(PolicyObserver(self.router))
        self.caches = caches
        self._happenings: list[_Happening] = []
        self._traffic, self.rng = random.Random(seed), random.Random(seed)
        self._gap_s = caches.shape.gap_s / caches.workers
        self._next_look = 0.0
        self._happened = 0
        self.now = 0.0
        for number in range(caches.workers):
            worker = self.router.add_worker(WorkerSpec(f"http://10.0.{number // 250}.{number % 250}:8000"))
            self.router.learn(worker, WorkerFacts({MODEL: False}, BLOCK_SIZE, caches.blocks))
            self.router.table.set_status(worker, WorkerStatus.READY)
            self.router.expect_events(worker.lanes[0], True)

    def decide(self) -> Taken:
        """Decide on the next request, at the time at which it comes."""
        self.now += self._traffic.expovariate(1.0 / self._gap_s)
        settled_us = list(self._pass_until(self.now))
        prompt = self._traffic.choice(self.caches.prompts)
        request = prompt.request()
        cpu, start = time.thread_time_ns(), time.perf_counter_ns()
        decision = self.router.route(request, self.now, self.rng)
        us, cpu_us = (time.perf_counter_ns() - start) / 1e3, (time.thread_time_ns() - cpu) / 1e3
        assert isinstance(decision, Decision)
        self.withdraw(decision)
        self._follow(decision)
        return Taken(prompt.length, prompt.case, us, cpu_us, settled_us)

    def withdraw(self, decision: Decision) -> None:
        """Take back what the decision has predicted."""
        hashes = decision.foundation.block_hashes
        assert isinstance(hashes, BlockHashes)
        self.router.index.truncate(decision.lane.key, hashes, decision.foundation.held_blocks)

    def _follow(self, decision: Decision) -> None:
        first_byte_at = self.now + decision.tokens_ahead / PREFILL_TOKENS_PER_S
        self._expect(first_byte_at, decision, None)
        self._expect(first_byte_at + OUTPUT_TOKENS * STEP_S, decision, first_byte_at)

    def _expect(self, at: float, decision: Decision, first_byte_at: float | None) -> None:
        self._happened += 1
        heapq.heappush(self._happenings, _Happening(at, self._happened, decision, first_byte_at))

    def _pass_until(self, now: float) -> Iterator[float]:
        """First bytes, ends and looks at the load, in their order; microseconds of each `settle`."""
        while self._happenings and self._happenings[0].at <= now:
            next_one = heapq.heappop(self._happenings)
            self._look(next_one.at)
            if next_one.first_byte_at is None:
                self.router.first_byte(next_one.decision, next_one.at)
            else:
                yield self._settle(next_one.decision, next_one.first_byte_at, next_one.at)
        self._look(now)

    def _settle(self, decision: Decision, first_byte_at: float, at: float) -> float:
        told = decision.request.prompt_tokens, OUTPUT_TOKENS, decision.cached_tokens
        outcome = Outcome(True, False, at, first_byte_at, 200, *told)
        start = time.perf_counter_ns()
        self.router.settle(decision, outcome, self.rng)
        return (time.perf_counter_ns() - start) / 1e3

    def _look(self, now: float) -> None:
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self.router.index.expire(now)
            for worker in self.router.table:
                report = LoadReport(worker.requests, 0.9, now, waiting=0)
                self.router.table.take_report(worker, report, worker.requests)
