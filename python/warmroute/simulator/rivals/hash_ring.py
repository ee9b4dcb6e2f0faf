"""Consistent hashing: workers at many points of a ring, a key belongs to the next point clockwise.

Karger et al., 1997. Points come from the workers' addresses, so that they are the same in every process.
"""

import hashlib
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from warmroute.policy import Candidate
from warmroute.worker import WorkerId

# The number of vLLM's router and of uhashring (production-stack); SGLang's has 150.
POINTS_PER_WORKER = 160


class HashRing:
    """All workers ever seen; those that are not candidates are walked past, as if they had been taken off."""

    def __init__(self, points_per_worker: int = POINTS_PER_WORKER) -> None:
        self._points_per_worker = points_per_worker
        self._points: list[tuple[int, WorkerId]] = []
        self._known: dict[WorkerId, None] = {}

    def walk(self, key: int, candidates: Sequence[Candidate]) -> Iterator[int]:
        """Positions of the candidates in the order in which the ring meets them from this key on, each once."""
        position_of = {candidate.worker.id: position for position, candidate in enumerate(candidates)}
        for worker in position_of:
            self._add(worker)
        start = bisect_left(self._points, (key, WorkerId("")))
        for point in range(start, start + len(self._points)):
            position = position_of.pop(self._points[point % len(self._points)][1], None)
            if position is not None:
                yield position
                if not position_of:
                    return

    def _add(self, worker: WorkerId) -> None:
        if worker not in self._known:
            self._known[worker] = None
            for number in range(self._points_per_worker):
                insort(self._points, (text_key(f"{worker}#{number}"), worker))


def text_key(text: str) -> int:
    """A text's place on the ring, a number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
