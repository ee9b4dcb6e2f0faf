"""The fleet: every worker with the tasks that watch it and listen to it. The one place where workers come and go."""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from warmroute.diagnostics.event_log import EventLog
from warmroute.errors import ConfigError
from warmroute.gateway.prober import Discovery, Prober
from warmroute.kv_event import REPLAY_DEADLINE_S, EventSource, Subscription
from warmroute.router import Router
from warmroute.worker import Worker, WorkerFacts, WorkerId, WorkerSpec, WorkerStatus

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Member:
    """A worker of the fleet, the task that watches it and, by source, those that hear its KV events."""

    worker: Worker
    prober: Prober
    task: asyncio.Task[None]
    subscriptions: dict[EventSource, tuple[Subscription, asyncio.Task[None]]] = field(default_factory=dict)
    warned: bool = False
    listening_since: float = 0.0

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Everything that has to be ended when the worker goes."""
        return [self.task, *(task for _, task in self.subscriptions.values())]

    def catching_up(self, now: float) -> bool:
        """Whether the replay of what its engine holds is still under way; a publisher gets a while, not forever."""
        if now - self.listening_since > REPLAY_DEADLINE_S:
            return False
        return any(not subscription.state().complete for subscription, _ in self.subscriptions.values())


class Fleet:
    """Adds and removes workers, keeps their tasks, and ends all of them at shutdown."""

    def __init__(
        self,
        router: Router,
        session: aiohttp.ClientSession,
        *,
        probe_interval_s: float,
        block_size: int | None = None,
    ) -> None:
        self._router = router
        self._session = session
        self._probe_interval_s = probe_interval_s
        self._block_size = block_size
        self._members: dict[WorkerId, Member] = {}

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Sequence[Member]:
        return tuple(self._members.values())

    def member(self, worker_id: WorkerId) -> Member | None:
        """The member of this id, or None."""
        return self._members.get(worker_id)

    def add(self, spec: WorkerSpec) -> Worker:
        """Take a worker in and begin to watch it. Raises ConfigError when its URL is taken."""
        if self._router.table.get(spec.id) is not None:
            raise ConfigError(f"worker {spec.id} is registered already; remove it first to change it")
        worker = self._router.add_worker(spec)
        prober = Prober(
            worker, self._router.table, self._session, self._probe_interval_s, self._discovered, self._came_up
        )
        task = asyncio.create_task(prober.run(), name=f"probe {worker.id}")
        self._members[worker.id] = Member(worker, prober, task)
        return worker

    async def remove(self, worker_id: WorkerId) -> bool:
        """Let a worker go: nothing new is sent to it and nothing of it is remembered. False when it is not known.

        Its requests in flight go on and are settled as usual.
        """
        member = self._members.pop(worker_id, None)
        if member is None:
            return False
        self._router.forget(member.worker)
        await _end(member.tasks)
        return True

    async def close(self) -> None:
        """End every task."""
        members, self._members = list(self._members.values()), {}
        await _end([task for member in members for task in member.tasks])

    def suspect(self, worker: Worker, reason: str) -> None:
        """A request could not reach the worker: send nothing more there until a look says that it is well."""
        member = self._member_of(worker)
        if member is None:
            return
        if self._router.table.set_status(worker, WorkerStatus.DOWN, reason):
            _log.warning("worker %s is set aside: %s", worker.id, reason)
        member.prober.look_soon()

    def look_at(self, worker: Worker) -> None:
        """A request was broken off by the worker: see soon whether it still lives. Until then it gets what comes."""
        member = self._member_of(worker)
        if member is not None:
            member.prober.look_soon()

    def _member_of(self, worker: Worker) -> Member | None:
        """The member of this very registration; None when it is gone, even if another has its address now."""
        member = self._members.get(worker.id)
        return member if member is not None and member.worker is worker else None

    def _discovered(self, worker: Worker, discovery: Discovery) -> None:
        member = self._member_of(worker)
        if member is None:
            return
        facts = discovery.facts
        if facts.block_size is None and self._block_size is not None:
            facts = dataclasses.replace(facts, block_size=self._block_size)
        _warn_of_block_size(worker, facts)
        self._router.learn(worker, facts)
        self._listen(member, _sources(worker.spec) or discovery.sources)

    def _listen(self, member: Member, sources: Sequence[EventSource]) -> None:
        worker = member.worker
        for source, (_, task) in member.subscriptions.items():
            if task.done() and not task.cancelled():
                _log.error("listening to %s had failed; beginning anew", source.endpoint, exc_info=task.exception())
        if any(task.done() or source not in sources for source, (_, task) in member.subscriptions.items()):
            # Another address is another engine process, which began empty and will not say so: what is known came from
            # the streams that end here, all ranks together, and the replays of the new ones bring back what is held.
            for _, task in member.subscriptions.values():
                task.cancel()
            member.subscriptions.clear()
            self._router.index.clear(worker.lanes[0].key)
        for source in sources:
            if source not in member.subscriptions:
                subscription = Subscription(worker.lanes[0].key, source, self._router.index, EventLog(worker.id))
                task = asyncio.create_task(subscription.run(), name=f"events {worker.id}")
                member.subscriptions[source] = (subscription, task)
                member.listening_since = time.monotonic()
                _log.info("listening for KV events of worker %s at %s", worker.id, source.endpoint)
        self._router.expect_events(worker.lanes[0], bool(sources))
        _warn_of_silence(member)

    def _came_up(self, worker: Worker) -> None:
        member = self._member_of(worker)
        if member is not None:
            self._router.came_up(worker)


def _warn_of_block_size(worker: Worker, told: WorkerFacts) -> None:
    given = worker.spec.block_size
    if given is not None and told.block_size not in (None, given, worker.facts.block_size):
        _log.warning(
            "worker %s is configured with blocks of %d tokens and says %d: where it is right, nothing will match",
            worker.id,
            given,
            told.block_size,
        )


def _warn_of_silence(member: Member) -> None:
    """Say once that a worker's cache cannot be followed, and what to do about it."""
    states = [subscription.state() for subscription, _ in member.subscriptions.values()]
    waiting = time.monotonic() - member.listening_since <= REPLAY_DEADLINE_S
    if member.warned or any(state.connected for state in states) or (states and waiting):
        return
    member.warned = True
    if states:
        endpoints = ", ".join(source.endpoint for source in member.subscriptions)
        _log.warning(
            "worker %s: nobody answers at %s, so its prefixes are not known; check its kv_events endpoint",
            member.worker.id,
            endpoints,
        )
        return
    _log.warning(
        "worker %s publishes no KV events: its prefixes are guessed from what it is sent; start the engine with them, "
        "or name their endpoint with kv_events",
        member.worker.id,
    )


def _sources(spec: WorkerSpec) -> tuple[EventSource, ...]:
    return (EventSource(spec.kv_events, spec.kv_replay, spec.kv_topic),) if spec.kv_events else ()


async def _end(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            _log.error("a task of the fleet had failed: %s", result, exc_info=result)
