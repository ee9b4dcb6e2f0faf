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
        self._next = [(self._step_from(live.computed), place) for place, live in enumerate(lives)]
        heapq.heapify(self._next)

    def apply(self, iterations: int, cache: KvCache) -> None:
        """Bring the cache to where it is once `iterations` have begun; there must be blocks for them."""
        while self._next[0][0] < iterations:
            iteration, place = self._next[0]
            computed = self._starts[place] + iteration
            self._bring(self._lives[place], computed, cache)
            heapq.heapreplace(self._next, (iteration + self._step_from(computed), place))

    def finish(self, iterations: int, cache: KvCache) -> None:
        """`apply`, and count the tokens of unfilled blocks too."""
        self.apply(iterations, cache)
        for live, start in zip(self._lives, self._starts, strict=True):
            self._bring(live, start + iterations - 1, cache)

    def _bring(self, live: LiveRequest, computed: int, cache: KvCache) -> None:
        if not live.ended and computed > live.computed:
            room = cache.grow(live, computed - live.computed)
            assert room, "an iteration was planned without blocks for it"

    def _step_from(self, computed: int) -> int:
        """How many tokens further the next block is taken or full."""
        return 1 if computed % self._block_size == 0 else self._block_size - computed % self._block_size
