"""The blocks that decoding takes and fills over several iterations, applied as late as somebody looks."""

import heapq
from collections.abc import Sequence

from warmroute.engine_model.kv_cache import KvCache
from warmroute.engine_model.request import LiveRequest


class Growth:
    """One token more for each of `lives` in every iteration after the first, which the scheduler has applied itself.

    Blocks are taken, and blocks that have become full are labelled, in the order in which single iterations would have
    done it: by iteration, then by place in the batch.
    """

    def __init__(self, lives: Sequence[LiveRequest], block_size: int) -> None:
        self._lives = lives
        self._block_size = block_size
        self._starts = [live.computed for live in lives]
        self._next = [(self._step_from(start), place) for place, start in enumerate(self._starts)]
        heapq.heapify(self._next)

    def apply(self, iterations: int, cache: KvCache) -> None:
        """Bring the cache to where it is once `iterations` have begun; there must be blocks for them."""
        while self._next[0][0] < iterations:
            iteration, place = self._next[0]
            computed = self._starts[place] + iteration
            live = self._lives[place]
            if not live.ended:
                room = cache.grow(live, computed - live.computed)
                assert room, "an iteration was planned without blocks for it"
            heapq.heapreplace(self._next, (iteration + self._step_from(computed), place))

    def lacking(self, iterations: int) -> int:
        """How many blocks more will be taken once `iterations` have begun."""
        size, further = self._block_size, iterations - 1
        ends = zip(self._lives, self._starts, strict=True)
        return sum([-(-(start + further) // size) - len(live.blocks) for live, start in ends if not live.ended])

    def finish(self, iterations: int, cache: KvCache) -> None:
        """`apply`, and count the tokens of blocks that are not full too, which change nothing else."""
        self.apply(iterations, cache)
        for live, start in zip(self._lives, self._starts, strict=True):
            if not live.ended:
                live.computed = start + iterations - 1

    def _step_from(self, computed: int) -> int:
        """How many tokens further the next block is taken or full."""
        filled = computed % self._block_size
        return self._block_size - filled if filled else 1
