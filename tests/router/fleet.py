"""A router over a few workers without sockets, for tests of decisions."""

import random
from collections.abc import Sequence

from warmroute.block import Namespace, Tier
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Decision, Outcome, Refusal, Router, RouteRequest
from warmroute.worker import Lane, Worker, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable

BLOCK_SIZE = 16
MODEL = "m"


def blocks(*names: str) -> list[int]:
    """Token ids of one block for each name; equal names give equal blocks."""
    return [1000 * (sum(name.encode()) + 1) + offset for name in names for offset in range(BLOCK_SIZE)]


class Fleet:
    """Named workers that are ready and serve MODEL."""

    def __init__(self, names: Sequence[str], policy: str = "warmroute", adapters: Sequence[str] = ()) -> None:
        self.router = Router(WorkerTable(), PrefixIndex(), POLICIES[policy]())
        self.workers = {name: self.add(name, adapters) for name in names}
        self.rng = random.Random(7)
        self._requests = 0

    def add(self, name: str, adapters: Sequence[str] = ()) -> Worker:
        worker = self.router.add_worker(WorkerSpec(f"http://{name}:1"))
        models = {MODEL: False} | dict.fromkeys(adapters, True)
        self.router.learn(worker, WorkerFacts(models, BLOCK_SIZE, 10_000))
        self.router.table.set_status(worker, WorkerStatus.READY)
        self.router.expect_events(worker.lanes[0], True)
        return worker

    def set_ranks(self, name: str, count: int) -> Sequence[Lane]:
        """The worker turns out to have this many data-parallel ranks, each with events of its own."""
        lanes = self.router.set_ranks(self.workers[name], range(count))
        for lane in lanes:
            self.router.expect_events(lane, True)
        return lanes

    def holds(
        self,
        name: str,
        token_ids: Sequence[int],
        tier: Tier = Tier.DEVICE,
        adapter: str | None = None,
        lane: int = 0,
        block_size: int = BLOCK_SIZE,
    ) -> None:
        """The engine of one of the worker's lanes says that it has cached these tokens."""
        count = len(token_ids) // block_size
        whole = token_ids[: count * block_size]
        hashes = [hash((name, tuple(whole[: (i + 1) * block_size]), tier, block_size)) for i in range(count)]
        key = self.workers[name].lanes[lane].key
        self.router.index.store(key, tier, None, hashes, whole, block_size, Namespace(adapter=adapter))

    def request(
        self,
        token_ids: Sequence[int] | None,
        model: str | None = MODEL,
        stream: bool = True,
        rank: int | None = None,
    ) -> RouteRequest:
        self._requests += 1
        size = len(token_ids) if token_ids is not None else 0
        return RouteRequest(f"r{self._requests}", model, token_ids, size, stream, rank=rank)

    def route(self, request: RouteRequest, now: float = 0.0, tried: Sequence[str] = ()) -> Decision:
        verdict = self.router.route(request, now, self.rng, tried={self.workers[name].id for name in tried})
        assert isinstance(verdict, Decision)
        self.router.table.check_integrity()
        return verdict

    def refuse(self, request: RouteRequest, tried: Sequence[str] = ()) -> Refusal:
        verdict = self.router.route(request, 0.0, self.rng, tried={self.workers[name].id for name in tried})
        assert isinstance(verdict, Refusal)
        return verdict

    def name_of(self, decision: Decision) -> str:
        return next(name for name, worker in self.workers.items() if worker is decision.worker)

    def complete(self, decision: Decision, now: float = 1.0, cached_tokens: int | None = None) -> None:
        ended = Outcome(
            completed=True,
            worker_failed=False,
            ended_at=now,
            prompt_tokens=decision.request.prompt_tokens,
            cached_tokens=cached_tokens,
        )
        self.router.settle(decision, ended)
        self.router.table.check_integrity()
