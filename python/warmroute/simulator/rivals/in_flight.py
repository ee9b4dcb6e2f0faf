"""What a rival counts of its own requests, from dispatch on."""

from collections.abc import Sequence

from warmroute.policy import Candidate
from warmroute.router import Decision
from warmroute.worker import Booking, LaneKey


def chosen_candidate(decision: Decision) -> Candidate:
    """What was known of the worker that got the request, when it was chosen."""
    return decision.candidates[decision.position]


class Prefilling:
    """Prompt tokens of requests that have no first byte yet, by lane.

    The router's booking knows when a request's prefill is over; how many tokens it counts for is the rival's own say.
    """

    def __init__(self) -> None:
        self._open: dict[LaneKey, list[tuple[Booking, int]]] = {}

    def add(self, decision: Decision, tokens: int) -> None:
        assert decision.booking is not None, "only a dispatched decision is in flight"
        self._prune(decision.lane.key).append((decision.booking, tokens))

    def settled(self, decision: Decision) -> None:
        """A request ended: forget it, and those whose prefill is over."""
        self._prune(decision.lane.key)

    def tokens(self, lane: LaneKey) -> int:
        """Those of the lane, now."""
        return sum(tokens for booking, tokens in self._open.get(lane, ()) if booking.prefilling)

    def _prune(self, lane: LaneKey) -> list[tuple[Booking, int]]:
        left = [each for each in self._open.get(lane, ()) if each[0].prefilling]
        self._open[lane] = left
        return left


class ActiveBlocks:
    """The blocks of all requests in flight, by lane, each block once however many requests share it."""

    def __init__(self) -> None:
        self._uses: dict[LaneKey, dict[int, int]] = {}

    def add(self, lane: LaneKey, hashes: Sequence[int]) -> None:
        uses = self._uses.setdefault(lane, {})
        for block in hashes:
            uses[block] = uses.get(block, 0) + 1

    def remove(self, lane: LaneKey, hashes: Sequence[int]) -> None:
        """What was added before."""
        uses = self._uses[lane]
        for block in hashes:
            left = uses[block] - 1
            if left:
                uses[block] = left
            else:
                del uses[block]

    def count(self, lane: LaneKey) -> int:
        return len(self._uses.get(lane, ()))

    def count_with(self, lane: LaneKey, hashes: Sequence[int]) -> int:
        """How many there would be with a prompt of these blocks as well."""
        uses = self._uses.get(lane)
        return len(hashes) if not uses else len(uses) + len(hashes) - _leading(hashes, uses)


def _leading(hashes: Sequence[int], known: dict[int, int]) -> int:
    """How many leading blocks are known. Whoever has a block has all before it, so this can be searched for."""
    low, high = 0, len(hashes)
    while low < high:
        middle = (low + high) // 2
        if hashes[middle] in known:
            low = middle + 1
        else:
            high = middle
    return low
