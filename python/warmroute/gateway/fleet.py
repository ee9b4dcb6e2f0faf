"""The fleet: every worker with the tasks that watch it and listen to it. The one place where workers come and go."""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from warmroute.errors import ConfigError
from warmroute.gateway.destinations import Destinations
from warmroute.gateway.discovery import configured_sources
from warmroute.gateway.event_streams import EventStream, EventStreams
from warmroute.gateway.origin import Origin
from warmroute.gateway.prober import Discovery, Prober
from warmroute.gateway.state_file import LaneState
from warmroute.kv_event import EventSource, Listeners
from warmroute.router import Router
from warmroute.worker import Lane, Worker, WorkerFacts, WorkerId, WorkerSpec, WorkerStatus

_log = logging.getLogger(__name__)

# What identifies a lane over restarts of the router: worker, endpoint, rank.
_SavedKey = tuple[str, str, int | None]


@dataclass(slots=True)
class Member:
    """A worker of the fleet, the task that watches it and the streams of its KV events."""

    worker: Worker
    prober: Prober
    task: asyncio.Task[None]
    streams: EventStreams
    origin: Origin = Origin.CONFIGURED

    def catching_up(self, now: float) -> bool:
        """Whether the replay of what its engine holds is still under way; a publisher gets a while, not forever."""
        return any(stream.is_new(now) and not stream.listening.state().complete for stream in self.streams)


class Fleet:
    """Adds and removes workers, keeps their tasks, and ends all of them at shutdown.

    `restored`: what an earlier process of the router knew of lanes. A lane goes on from there once its publisher is
    found, if that proves to be the same process. `destinations` says where workers may be; `changed` is called when a
    worker has come, gone or changed its part.
    """

    def __init__(
        self,
        router: Router,
        session: aiohttp.ClientSession,
        listeners: Listeners,
        *,
        probe_interval_s: float,
        block_size: int | None = None,
        restored: Collection[LaneState] = (),
    ) -> None:
        self._router = router
        self._session = session
        self._listeners = listeners
        self._probe_interval_s = probe_interval_s
        self.block_size = block_size
        self.polling_session: Callable[[], aiohttp.ClientSession] = aiohttp.ClientSession
        self.destinations: Callable[[], Destinations] = Destinations
        self.changed: Callable[[], None] = lambda: None
        self._members: dict[WorkerId, Member] = {}
        self._saved: dict[_SavedKey, LaneState] = {_saved_key(lane): lane for lane in restored}
        self._resyncs: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> Sequence[Member]:
        return tuple(self._members.values())

    def member(self, worker_id: WorkerId) -> Member | None:
        """The member of this id, or None."""
        return self._members.get(worker_id)

    def add(self, spec: WorkerSpec, origin: Origin = Origin.CONFIGURED) -> Worker:
        """Take a worker in and begin to watch it. Raises ConfigError when its URL is taken."""
        if self._router.table.get(spec.id) is not None:
            raise ConfigError(f"worker {spec.id} is registered already; remove it first to change it")
        worker = self._router.add_worker(spec)
        prober = Prober(
            worker, self._router.table, self._session, self._probe_interval_s, self._discovered, self._came_up
        )
        task = asyncio.create_task(prober.run(), name=f"probe {worker.id}")

        def saved(source: EventSource) -> LaneState | None:
            return self._saved.pop((worker.id, source.endpoint, source.rank), None)

        streams = EventStreams(worker, self._router, self._listeners, saved, self.polling_session)
        self._members[worker.id] = Member(worker, prober, task, streams, origin)
        self.changed()
        return worker

    async def remove(self, worker_id: WorkerId) -> bool:
        """Let a worker go: nothing new is sent to it and nothing of it is remembered. False when it is not known.

        Its requests in flight go on and are settled as usual.
        """
        member = self._members.pop(worker_id, None)
        if member is None:
            return False
        self._drop_saved(worker_id)
        self._router.forget(member.worker)
        self.changed()
        await _end([member])
        return True

    def set_draining(self, worker: Worker, draining: bool) -> None:
        """Send a worker nothing more, or again."""
        self._router.table.set_draining(worker, draining)
        self.changed()

    def look_every(self, interval_s: float) -> None:
        """From now on leave so much time between two looks at each worker."""
        self._probe_interval_s = interval_s
        for member in self.members:
            member.prober.interval_s = interval_s

    async def close(self) -> None:
        """End every task."""
        members, self._members = list(self._members.values()), {}
        for task in self._resyncs:
            task.cancel()
        await asyncio.gather(*self._resyncs, return_exceptions=True)
        await _end(members)

    async def snapshots(self) -> list[LaneState]:
        """Every lane that events tell of, with its blocks and its position; taken one by one, on the lanes' threads.

        What was restored for a worker whose publisher has not been found yet is among them.
        """
        waiting = [lane for lane in self._saved.values() if lane.worker in self._members]
        streams = [(member.worker, stream) for member in self.members for stream in member.streams]
        taken = await asyncio.gather(*(_snapshot(worker, stream) for worker, stream in streams))
        return [*waiting, *(lane for lane in taken if lane is not None)]

    def load(self, lanes: Collection[LaneState]) -> list[LaneState]:
        """Go on from these lanes, as at a start, instead of what is known of them now; those that were taken.

        Left out are lanes that nobody publishes for here, and those without a position to go on from.
        """
        taken = []
        for lane in lanes:
            member = self._members.get(WorkerId(lane.worker))
            stream = None if member is None else _stream_of(member, lane)
            if member is not None and stream is not None and lane.position is not None:
                member.streams.begin_with(stream, lane, time.monotonic())
                taken.append(lane)
        return taken

    def resync(self, worker: Worker, lane: Lane, reason: str) -> None:
        """What is known of a lane has proved wrong: forget it, and learn it again as far as its engine can tell."""
        member = self._member_of(worker)
        if member is None or lane not in worker.lanes:
            return
        rank = "" if lane.rank is None else f" rank {lane.rank}"
        _log.info("worker %s%s: its prefixes are learned anew: %s", worker.shown, rank, reason)
        stream = member.streams.of(lane)
        if stream is None:
            self._router.index.clear(lane.key)
        else:
            self._resync_task(stream.listening.resync(), f"resync {worker.shown}{rank}")

    def _resync_task(self, resync: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(resync, name=name)
        self._resyncs.add(task)
        task.add_done_callback(self._resync_ended)

    def _resync_ended(self, task: "asyncio.Task[None]") -> None:
        self._resyncs.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s failed", task.get_name(), exc_info=task.exception())

    def suspect(self, worker: Worker, reason: str) -> None:
        """A request could not reach the worker: send nothing more there until a look says that it is well."""
        member = self._member_of(worker)
        if member is None:
            return
        if self._router.table.set_status(worker, WorkerStatus.DOWN, reason):
            _log.warning("worker %s is set aside: %s", worker.shown, reason)
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
        if facts.block_size is None and self.block_size is not None:
            facts = dataclasses.replace(facts, block_size=self.block_size)
        _warn_of_block_size(worker, facts)
        self._router.learn(worker, facts)
        sources = configured_sources(worker.spec) or self._permitted(worker, discovery.sources)
        member.streams.follow(sources, time.monotonic())
        if sources:
            for lane in self._drop_saved(worker.id):
                _log.info(
                    "worker %s: what was saved of %s is not used, nobody publishes there",
                    worker.shown,
                    lane.endpoint if worker.shows_address else "a publisher",
                )

    def _permitted(self, worker: Worker, told: Sequence[EventSource]) -> tuple[EventSource, ...]:
        """Of the publishers that a worker names those that it may send the router to."""
        allowed = self.destinations()

        def is_permitted(source: EventSource) -> bool:
            endpoints = (source.endpoint, source.replay_endpoint)
            return all(each is None or allowed.permits_told(each, worker.spec.url) for each in endpoints)

        permitted = tuple(filter(is_permitted, told))
        if len(permitted) < len(told):
            _log.warning("worker %s names a publisher where none may be; it is not listened to", worker.shown)
        return permitted

    def _drop_saved(self, worker_id: WorkerId) -> list[LaneState]:
        """Lets go of what was restored for a worker and has not been taken up; what that was."""
        return [self._saved.pop(key) for key in list(self._saved) if key[0] == worker_id]

    def _came_up(self, worker: Worker) -> None:
        if self._member_of(worker) is not None:
            self._router.came_up(worker)


def _warn_of_block_size(worker: Worker, told: WorkerFacts) -> None:
    given = worker.spec.block_size
    if given is not None and told.block_size not in (None, given, worker.facts.block_size):
        _log.warning(
            "worker %s is configured with blocks of %d tokens and says %d: it is looked up in what its KV events have",
            worker.shown,
            given,
            told.block_size,
        )


def _saved_key(lane: LaneState) -> _SavedKey:
    return lane.worker, lane.endpoint, lane.rank


def _stream_of(member: Member, lane: LaneState) -> EventStream | None:
    return next(
        (each for each in member.streams if (each.source.endpoint, each.source.rank) == (lane.endpoint, lane.rank)),
        None,
    )


async def _snapshot(worker: Worker, stream: EventStream) -> LaneState | None:
    try:
        position, blob = await stream.listening.snapshot()
    except KeyError:  # its worker has been removed meanwhile
        return None
    if stream.listening.ended:
        return None
    return LaneState(
        worker.id, stream.source.endpoint, stream.source.rank, position, worker.block_size, time.time(), blob
    )


async def _end(members: Sequence[Member]) -> None:
    """Stops what watches and listens to the members, and waits until it has stopped."""
    tasks = [member.task for member in members]
    for task in tasks:
        task.cancel()
    listenings = [listening for member in members for listening in member.streams.end()]
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            _log.error("a task of the fleet had failed: %s", result, exc_info=result)
    await asyncio.gather(*(listening.wait() for listening in listenings))
