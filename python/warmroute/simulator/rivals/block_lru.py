"""The approximate index of llm-d and of the Gateway API inference extension: which worker was sent which block.

It learns when a request is routed. Each worker has the blocks that it was sent last, as many as it is taken to hold;
what the engine really evicts is never heard.
"""

from collections import OrderedDict
from collections.abc import Sequence

from warmroute.worker import LaneKey


class BlockLru:
    """Blocks by lane, least recently sent ones leaving first."""

    def __init__(self) -> None:
        self._recent: dict[LaneKey, OrderedDict[int, None]] = {}
        self._bits: dict[LaneKey, int] = {}
        self._holders: dict[int, int] = {}  # block -> the bits of all lanes that have it

    def add(self, lane: LaneKey, hashes: Sequence[int], capacity: int) -> None:
        """Note that the lane was sent these blocks; beyond `capacity` it loses the oldest."""
        recent = self._recent.setdefault(lane, OrderedDict())
        bit = self._bits.setdefault(lane, 1 << len(self._bits))
        for block in hashes:
            recent[block] = None
            recent.move_to_end(block)
            self._holders[block] = self._holders.get(block, 0) | bit
        while len(recent) > capacity:
            self._lose(recent.popitem(last=False)[0], bit)

    def matched(self, hashes: Sequence[int]) -> dict[LaneKey, int]:
        """How many of a prompt's blocks each lane has, up to the first that nobody has; lanes with none are left out.

        As in the original, a lane that lacks one in the middle is credited with those after it.
        """
        together: dict[int, int] = {}
        for block in hashes:
            bits = self._holders.get(block)
            if bits is None:
                break
            together[bits] = together.get(bits, 0) + 1
        counts = {
            lane: sum(blocks for bits, blocks in together.items() if bits & bit) for lane, bit in self._bits.items()
        }
        return {lane: blocks for lane, blocks in counts.items() if blocks}

    def size(self, lane: LaneKey) -> int:
        return len(self._recent.get(lane, ()))

    def _lose(self, block: int, bit: int) -> None:
        left = self._holders[block] & ~bit
        if left:
            self._holders[block] = left
        else:
            del self._holders[block]
