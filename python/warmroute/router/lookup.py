"""What each lane holds of a prompt, and which lane of a worker would get it."""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warmroute.block import BlockHashes, Overlap, hash_blocks
from warmroute.cache_model import CacheModel, Tail
from warmroute.policy import cached_tokens
from warmroute.prefix_index import PrefixIndex
from warmroute.router.block_sizes import BlockSizes, most_used
from warmroute.router.decision import RouteRequest
from warmroute.worker import Lane, LaneKey, Worker

Shorten = Callable[[Mapping[int, BlockHashes]], Sequence[Worker]]

_NOTHING = Overlap()
_NOWHERE: Mapping[int, Overlap] = {}


@dataclass(slots=True)
class Holding:
    """What one lane holds of a prompt: the most tokens over its block sizes.

    `overlap` counts blocks of `block_size`. Of the prompt's blocks in the lane's own size, in which predictions are
    made, it holds `own_blocks`; on a lane without events these may go on with the answer `tail`. Where tokens are not
    told, `session_tokens` of `cached_tokens` are there because the lane answered the prompt's session last.
    """

    lane: Lane
    overlap: Overlap
    block_size: int
    cached_tokens: int
    own_size: int
    own_blocks: int
    tail: Tail | None = None
    session_tokens: int = 0


class Lookup:
    """One prompt's lookup: hashed once per block size, matched once per size, read once per lane.

    workers: those that were looked up. They are all that were given, unless these are too many to look at each.
    """

    def __init__(
        self,
        request: RouteRequest,
        workers: Sequence[Worker],
        index: PrefixIndex,
        sizes: BlockSizes,
        models: Mapping[LaneKey, CacheModel],
        now: float,
        session: tuple[LaneKey, int] | None = None,
        shorten: Shorten | None = None,
    ) -> None:
        """`session`: the lane that answered the request's session last, and the tokens that it was left with.
        `shorten` picks from the workers, given the prompt's hashes.
        """
        self._session = session
        self._request = request
        self._models = models
        self._now = now
        if shorten is None:
            found = {lane.key: sizes.of(worker, lane) for worker in workers for lane in worker.lanes}
            self.hashes = _hashes(request, workers, most_used(found.values()))
            self._overlaps = {size: index.match(hashes, now) for size, hashes in self.hashes.items()}
        else:
            self.hashes = _hashes(request, workers, sizes.of_fleet())
            workers = shorten(self.hashes)
            found = {lane.key: sizes.of(worker, lane) for worker in workers for lane in worker.lanes}
            self._overlaps = {size: index.match(hashes, now, set(found)) for size, hashes in self.hashes.items()}
        self.workers = workers
        self._sizes = found

    def best_lane(self, worker: Worker, rng: random.Random) -> Holding:
        """The lane that the worker's request should go to, with what it holds.

        Of several the one with the fewest tokens to compute, ours and those queued; then the one with the fewest
        requests; then any. A rank that the client asked for is taken where the worker has it.
        """
        lanes = worker.lanes
        if len(lanes) == 1:
            return self._holding(lanes[0])
        asked = None if self._request.rank is None else worker.lane_of(self._request.rank)
        if asked is not None:
            return self._holding(asked)
        holdings = [self._holding(lane) for lane in lanes]
        ahead = [(each.lane.queued_tokens - each.cached_tokens, each.lane.requests) for each in holdings]
        least = min(ahead)
        equals = [holding for holding, cost in zip(holdings, ahead, strict=True) if cost == least]
        return equals[0] if len(equals) == 1 else rng.choice(equals)

    def _holding(self, lane: Lane) -> Holding:
        sizes = self._sizes[lane.key]
        best = self._in_size(lane, sizes[0])
        for size in sizes[1:]:
            other = self._in_size(lane, size)
            if other.cached_tokens > best.cached_tokens:
                other.own_size, other.own_blocks = best.own_size, best.own_blocks
                best = other
        if best.own_blocks and (model := self._models.get(lane.key)) is not None:
            self._follow_tail(best, model)
        if self._session is not None and self._session[0] == lane.key:
            self._count_session(best, self._session[1])
        return best

    def _count_session(self, holding: Holding, left: int) -> None:
        """Adds what the session left, unless what is told of the prompt is missing already: then the rest is, too."""
        told = len(self._request.token_ids or ())
        if holding.overlap.blocks < told // holding.block_size:
            return
        held = max(holding.cached_tokens, min(left, self._request.prompt_tokens - 1))
        holding.session_tokens, holding.cached_tokens = held - holding.cached_tokens, held

    def _in_size(self, lane: Lane, size: int) -> Holding:
        overlap = self._overlaps.get(size, _NOWHERE).get(lane.key)
        if overlap is None:
            return Holding(lane, _NOTHING, size, 0, size, 0)
        blocks = overlap.blocks
        return Holding(lane, overlap, size, cached_tokens(blocks, size, self._request.prompt_tokens), size, blocks)

    def _follow_tail(self, holding: Holding, model: CacheModel) -> None:
        """Adds the answer that the prompt takes up, where the engine keeps answers and this one is still there."""
        hashes, token_ids = self.hashes.get(holding.own_size), self._request.token_ids
        if hashes is None or token_ids is None or holding.block_size != holding.own_size:
            return
        tail = model.tail_of(hashes, holding.own_blocks, token_ids, holding.own_size, self._now)
        holding.tail = tail
        if tail is not None and model.counts_on_tails:
            held = holding.overlap
            predicted = held.predicted + len(tail.stand_ins)
            holding.overlap = Overlap(held.device, held.host, held.disk, held.remote, predicted)
            holding.cached_tokens = cached_tokens(holding.overlap.blocks, holding.own_size, self._request.prompt_tokens)


def _hashes(request: RouteRequest, workers: Sequence[Worker], sizes: Sequence[int]) -> dict[int, BlockHashes]:
    """The prompt's hashes in each block size; none where its tokens are not known."""
    if request.token_ids is None:
        return {}
    namespace = request.namespace
    if request.model is not None and any(worker.models.get(request.model, False) for worker in workers):
        namespace = dataclasses.replace(namespace, adapter=request.model)
    return {size: hash_blocks(request.token_ids, size, namespace) for size in sizes}
