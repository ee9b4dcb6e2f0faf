"""The router's pages about its index, for `warmroute index` and for people with curl.

GET  /warmroute/index         what is known of each lane, and the state file
GET  /warmroute/index/dump    everything that is confirmed, as a state file
POST /warmroute/index/load    a state file's lanes for this router's workers; each is verified against its engine
POST /warmroute/index/check   has the index examine itself
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from warmroute._native import __version__
from warmroute.gateway import page_descriptions as described
from warmroute.gateway.answers import Answer, error_answer, json_answer
from warmroute.gateway.fleet import Fleet
from warmroute.gateway.index_report import (
    IndexReport,
    LaneReport,
    LoadedLane,
    LoadReport,
    blocks_in,
    check_of_live,
)
from warmroute.gateway.own_page import OwnPage, Pages
from warmroute.gateway.relay import Arrival
from warmroute.gateway.state_file import LaneState, SavedState, UnusableState, decode, encode
from warmroute.gateway.state_keeper import StateKeeper
from warmroute.router import Router
from warmroute.worker import WorkerId

# Between two examinations of the index; enough for a change that was under way to be over.
_PAUSE_S = 0.2
_FILE_TYPE = (
    ("content-type", "application/octet-stream"),
    ("content-disposition", 'attachment; filename="warmroute.index"'),
)


@dataclass(frozen=True, slots=True)
class IndexPages:
    """Answers the pages about the index. What takes long runs in a thread."""

    router: Router
    fleet: Fleet
    keeper: StateKeeper

    def pages(self) -> Pages:
        """Each page by method and path."""
        return {
            ("GET", "/warmroute/index"): OwnPage(self._stats, described.INDEX),
            ("GET", "/warmroute/index/dump"): OwnPage(self._dump, described.INDEX_DUMP),
            ("POST", "/warmroute/index/load"): OwnPage(self._load, described.INDEX_LOAD),
            ("POST", "/warmroute/index/check"): OwnPage(self._check, described.INDEX_CHECK),
        }

    async def _stats(self, arrival: Arrival) -> Answer:
        lanes = tuple(self._lane_reports(time.monotonic()))
        report = IndexReport("this router", __version__, lanes, self.router.index.stats(), self.keeper.report())
        return json_answer(msgspec.to_builtins(report, str_keys=True))

    def _lane_reports(self, now: float) -> Iterator[LaneReport]:
        index = self.router.index
        for member in self.fleet.members:
            for lane in member.worker.lanes:
                stream = member.streams.of(lane)
                state = None if stream is None else stream.listening.state()
                last_event_at = None if state is None else state.last_event_at
                yield LaneReport(
                    member.worker.id,
                    lane.rank,
                    None if stream is None else stream.source.endpoint,
                    index.worker_stats(lane.key),
                    index.block_sizes(lane.key),
                    None if state is None else state.complete,
                    None if state is None else state.last_seq,
                    None if last_event_at is None else now - last_event_at,
                )

    async def _dump(self, arrival: Arrival) -> Answer:
        state = SavedState(time.time(), __version__, tuple(await self.fleet.snapshots()))
        data = await asyncio.to_thread(b"".join, encode(state))
        return Answer(200, data, _FILE_TYPE)

    async def _load(self, arrival: Arrival) -> Answer:
        try:
            state = await asyncio.to_thread(decode, arrival.body)
        except UnusableState as error:
            return error_answer(arrival.path, 400, "unusable_state", f"the body cannot be used: {error}")
        lanes = tuple([await self._load_lane(lane) for lane in state.lanes])
        return json_answer(msgspec.to_builtins(LoadReport(lanes)))

    async def _load_lane(self, lane: LaneState) -> LoadedLane:
        try:
            # Tried out first: a lane that is damaged must not cost what is known of it.
            blocks = await asyncio.to_thread(blocks_in, lane)
        except UnusableState as error:
            return LoadedLane(lane.worker, lane.rank, False, 0, str(error))
        if self.fleet.load([lane]):
            return LoadedLane(lane.worker, lane.rank, True, blocks, "being verified against its engine's events")
        return LoadedLane(lane.worker, lane.rank, False, blocks, self._why_not(lane))

    def _why_not(self, lane: LaneState) -> str:
        if self.fleet.member(WorkerId(lane.worker)) is None:
            return "the router has no such worker"
        if lane.position is None:
            return "it has no position in its engine's events, by which it could be verified"
        return f"the worker publishes no KV events at {lane.endpoint}, as far as the router knows"

    async def _check(self, arrival: Arrival) -> Answer:
        report = await asyncio.to_thread(check_of_live, self.router.index, lambda: time.sleep(_PAUSE_S))
        return json_answer(msgspec.to_builtins(report))
