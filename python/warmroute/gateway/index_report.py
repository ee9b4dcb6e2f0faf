"""What `warmroute index` tells of an index: of a running router's, as its pages send it, or of one in a state file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from warmroute.gateway.state_file import LaneState, SavedState, UnusableState
from warmroute.prefix_index import PrefixIndex

_EXAMINATIONS = 5


@dataclass(frozen=True, slots=True)
class LaneReport:
    """One lane. `blocks`: see `PrefixIndex.worker_stats`; `block_sizes`: tokens per block -> blocks stored so.

    complete: whether it holds all that the engine holds, as far as can be told; None where no events are heard.
    age_s: seconds since its last event, or since it was written to the file; None where there was none.
    """

    worker: str
    rank: int | None
    endpoint: str | None
    blocks: dict[str, int]
    block_sizes: dict[int, int]
    complete: bool | None
    last_seq: int | None
    age_s: float | None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """An index. `router`: the version that runs or wrote it; `counts`: see `PrefixIndex.stats`.

    `state_file` is the report of the router's `StateKeeper`; None where it keeps none, and for a file.
    """

    source: str
    router: str
    lanes: tuple[LaneReport, ...]
    counts: dict[str, int]
    state_file: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check: sound where `problems` is empty and nothing is `undecided`, which says what to do."""

    lanes: int
    blocks: int
    problems: tuple[str, ...]
    undecided: str | None = None


@dataclass(frozen=True, slots=True)
class LoadedLane:
    """What became of one lane that a running router was given; `detail` says why it was not taken, or what comes."""

    worker: str
    rank: int | None
    taken: bool
    blocks: int
    detail: str


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What became of all lanes that a running router was given."""

    lanes: tuple[LoadedLane, ...]


def report_of_file(state: SavedState, source: str, now: float) -> IndexReport:
    """What a state file holds; `now` in seconds of the Unix epoch. Raises UnusableState for a lane that is damaged."""
    index = PrefixIndex()
    lanes = tuple(_lane_report(index, number, lane, now) for number, lane in enumerate(state.lanes))
    return IndexReport(source, state.router, lanes, index.stats())


def _lane_report(index: PrefixIndex, number: int, lane: LaneState, now: float) -> LaneReport:
    _restore(index, number, lane)
    position = lane.position
    return LaneReport(
        lane.worker,
        lane.rank,
        lane.endpoint,
        index.worker_stats(number),
        index.block_sizes(number),
        None if position is None else position.complete,
        None if position is None else position.seq,
        max(0.0, now - lane.taken_at),
    )


def check_of_file(state: SavedState) -> CheckReport:
    """Restores each lane and has the index examine itself; the frame and checksum were checked when it was read."""
    index = PrefixIndex()
    problems = list(_problems(index, state))
    blocks = sum(index.blocks(number) for number in index.workers())
    return CheckReport(len(state.lanes), blocks, tuple(problems))


def _problems(index: PrefixIndex, state: SavedState) -> Iterator[str]:
    seen: set[tuple[str, str, int | None]] = set()
    for number, lane in enumerate(state.lanes):
        if (lane.worker, lane.endpoint, lane.rank) in seen:
            yield f"{lane.name}: it is in the file twice"
        seen.add((lane.worker, lane.endpoint, lane.rank))
        try:
            _restore(index, number, lane)
        except UnusableState as error:
            yield str(error)
    fault = _fault(index)
    if fault is not None:
        yield fault


def check_of_live(index: PrefixIndex, pause: Callable[[], None]) -> CheckReport:
    """Has an index examine itself while events come in; `pause` lets some time pass. For a thread of its own.

    What changes during an examination may be blamed, each time another block; what is really wrong stays so.
    """
    faults: list[str] = []
    while len(faults) < _EXAMINATIONS and (fault := _fault(index)) is not None:
        faults.append(fault)
        pause()
    lasting = set(faults) if len(faults) == _EXAMINATIONS else set()
    undecided = None
    if len(lasting) > 1:
        undecided = f"events change the index faster than it can be examined; ask again when it is quieter ({fault})"
    return CheckReport(len(index.workers()), index.size(), () if undecided else tuple(lasting), undecided)


def _fault(index: PrefixIndex) -> str | None:
    try:
        index.check_integrity()
    except AssertionError as error:
        return f"the index contradicts itself: {error}"
    return None


def blocks_in(lane: LaneState) -> int:
    """How many blocks a saved lane holds. Raises UnusableState where it is damaged."""
    try:
        return PrefixIndex.check_dump(lane.blob)
    except ValueError as error:
        raise UnusableState(f"{lane.name}: its blocks cannot be read: {error}") from error


def _restore(index: PrefixIndex, number: int, lane: LaneState) -> None:
    blocks_in(lane)
    index.add_worker(number, 0)
    index.restore(number, lane.blob)
