"""A fleet of one worker that nobody answers for; what it is said to publish is told by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from kv_event.publisher import Publisher
from kv_event.subscribed import holding
from warmroute.gateway.event_streams import EventStream
from warmroute.gateway.fleet import Fleet, Member
from warmroute.gateway.prober import Discovery
from warmroute.gateway.state_file import LaneState
from warmroute.kv_event import EventSource, Listeners
from warmroute.policy import POLICIES
from warmroute.prefix_index import PrefixIndex
from warmroute.router import Router
from warmroute.worker import WorkerFacts, WorkerSpec, WorkerTable

FACTS = WorkerFacts({"m": False}, 16, 1000)
NOBODY = "http://127.0.0.1:9"


@dataclass
class FleetOfOne:
    fleet: Fleet
    router: Router
    member: Member

    def discovered(self, *sources: str | EventSource, facts: WorkerFacts = FACTS) -> None:
        """The worker is asked and names these publishers."""
        told = tuple(EventSource(source) if isinstance(source, str) else source for source in sources)
        self.member.prober.discovered(self.member.worker, Discovery(facts, told))

    def stream(self, rank: int | None = None) -> EventStream:
        return next(stream for stream in self.member.streams if stream.source.rank == rank)

    def holds(self, *numbers: int, rank: int | None = None) -> bool:
        """Whether the lane of this rank holds exactly these one-block prompts, of those numbered below 100."""
        lane = self.stream(rank).lane
        return holding(self.router.index, lane.key, range(100)) == list(numbers)

    def is_complete(self, rank: int | None = None) -> bool:
        return self.stream(rank).listening.state().complete


@asynccontextmanager
async def fleet_of_one(
    spec: WorkerSpec = WorkerSpec(NOBODY),  # noqa: B008 - frozen
    *,
    block_size: int | None = None,
    restored: Collection[LaneState] = (),
) -> AsyncIterator[FleetOfOne]:
    """The probing sleeps after its first, failed look."""
    router = Router(WorkerTable(), PrefixIndex(), POLICIES["warmroute"]())
    listeners = Listeners(2)
    async with aiohttp.ClientSession() as session:
        fleet = Fleet(router, session, listeners, probe_interval_s=60.0, block_size=block_size, restored=restored)
        try:
            worker = fleet.add(spec)
            member = fleet.member(worker.id)
            assert member is not None
            await until(lambda: member.prober.last_look_at is not None)
            yield FleetOfOne(fleet, router, member)
        finally:
            await fleet.close()
            await listeners.close()
            router.index.check_integrity()


def source_of(publisher: Publisher, rank: int | None = None) -> EventSource:
    return EventSource(publisher.endpoint, publisher.replay_endpoint, rank=rank)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)
