"""In which block sizes each lane is looked up: the one that its worker names, and those that its engine announces."""

import logging
from collections import Counter
from collections.abc import Collection, Iterable

from warmroute.prefix_index import PrefixIndex
from warmroute.worker import Lane, LaneKey, Worker

_log = logging.getLogger(__name__)

DEFAULT_BLOCK_SIZE = 16
# A prompt is hashed once for each size; beyond these a fleet's rarer sizes are not looked up.
MOST_BLOCK_SIZES = 4
# Sizes change with an engine's configuration only; asking 96 lanes for each request would cost as much as matching.
_MAX_AGE_S = 1.0


class BlockSizes:
    """The block sizes of all lanes. `mismatches` counts lanes whose engine announces others than its worker names."""

    def __init__(self, index: PrefixIndex) -> None:
        self._index = index
        self._read_at: float | None = None
        self._announced: dict[LaneKey, dict[int, int]] = {}
        self._confirmed: set[tuple[LaneKey, int]] = set()
        self._mismatched: set[LaneKey] = set()
        self._of_fleet: list[int] = []
        self.mismatches = 0

    def refresh(self, workers: Iterable[Worker], now: float) -> None:
        """Read what engines have announced, unless that was done a moment ago."""
        if self._read_at is not None and 0.0 <= now - self._read_at < _MAX_AGE_S:
            return
        self._read_at = now
        lanes = [(worker, lane) for worker in workers for lane in worker.lanes]
        self._announced = {lane.key: found for _, lane in lanes if (found := self._index.block_sizes(lane.key))}
        for worker, lane in lanes:
            self._compare(worker, lane)
        self._of_fleet = most_used([self.of(worker, lane) for worker, lane in lanes])

    def of(self, worker: Worker, lane: Lane) -> tuple[int, ...]:
        """The sizes of one lane; the first is the one that its GPU cache has, for predictions."""
        announced = self._announced.get(lane.key)
        named = worker.block_size
        if announced is None:
            return (named or DEFAULT_BLOCK_SIZE,)
        if named is None or lane.key in self._mismatched:
            return tuple(sorted(announced, key=lambda size: announced[size], reverse=True))
        return (named, *(size for size in announced if size != named))

    def of_fleet(self) -> list[int]:
        """The sizes in which to hash a prompt that any lane may get, as of the last `refresh`."""
        return self._of_fleet

    def forget(self, lane: Lane) -> None:
        """Drop what is known of a lane that is gone."""
        self._announced.pop(lane.key, None)
        self._mismatched.discard(lane.key)
        self._confirmed = {found for found in self._confirmed if found[0] != lane.key}

    def _compare(self, worker: Worker, lane: Lane) -> None:
        """Tell once of a lane that has never announced a block of the size that its worker names."""
        announced, named = self._announced.get(lane.key), worker.block_size
        if announced is None or named is None:
            return
        if named in announced:
            self._confirmed.add((lane.key, named))
        if (lane.key, named) in self._confirmed:
            self._mismatched.discard(lane.key)
            return
        if lane.key not in self._mismatched:
            self._mismatched.add(lane.key)
            self.mismatches += 1
            told = ", ".join(map(str, sorted(announced)))
            _log.warning(
                "worker %s: its KV events have blocks of %s tokens, not of %d as configured or told; they are matched "
                "as announced",
                worker.shown,
                told,
                named,
            )


def most_used(sizes: Collection[tuple[int, ...]]) -> list[int]:
    """The sizes in which to hash a prompt for lanes of these sizes: at most `MOST_BLOCK_SIZES`, the most used."""
    distinct = set().union(*set(sizes))
    if len(distinct) <= MOST_BLOCK_SIZES:
        return sorted(distinct)
    return [size for size, _ in Counter(size for lane in sizes for size in lane).most_common(MOST_BLOCK_SIZES)]
