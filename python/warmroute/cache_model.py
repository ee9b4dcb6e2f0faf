"""What a worker without KV events is taken to hold: an LRU of what it was sent and what it generated.

The index keeps it as predictions that never expire, at most the engine's capacity of them, the least recently used
going first and of one prompt the tail before the head: the order in which vLLM hands blocks out again. What is entered:

    dispatch   the prompt's full blocks
    end        the generated blocks, and the prompt's again, for a request's blocks age from its end

The ids of generated tokens are not known, so their blocks get stand-ins: hashes that nobody else has. A later prompt
that goes on where that one ended is taken to contain the answer, and so finds the answer's blocks in the cache; from
then on they have their real hashes. An answer is found again by the last full block of its prompt and the tokens after
it. Where engines report cached tokens, answers that are not taken up again (reasoning that the chat template drops, for
instance) are no longer counted on.

A sequence of requests is followed exactly, but for the second copy that an engine makes of the last block when it
computes a whole prompt again. Of requests at the same time the engine holds the blocks until their end, which an LRU by
dispatch only comes close to.
"""

import dataclasses
import itertools
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.block import BlockHashes
from warmroute.prefix_index import PrefixIndex
from warmroute.worker import LaneKey

# Prompts per lane whose answer is remembered, and different ends of a prompt after the same full blocks.
_MOST_ENDS = 4_096
_MOST_TAILS_PER_END = 8
# Reports in a row that speak against the model before it gives way: a single one is an eviction as likely as not.
_ENOUGH_REPORTS = 3

_NO_BLOCKS = BlockHashes.from_list([])


@dataclass(frozen=True, slots=True)
class Tail:
    """An answer in the cache: the blocks that follow `after`, a prompt's last full block, and begin with `rest`."""

    after: int
    rest: tuple[int, ...]
    stand_ins: BlockHashes


class CacheModel:
    """The cache of one lane. The caller matches the prompt's own blocks; tails come on top of them."""

    def __init__(self, index: PrefixIndex, lane: LaneKey) -> None:
        self._index = index
        self._lane = lane
        self._tails: OrderedDict[int, list[Tail]] = OrderedDict()
        self._seeds = itertools.count(lane << 32)
        self._tails_refuted = 0
        self._hits_refuted = 0

    @property
    def counts_on_tails(self) -> bool:
        """Whether prompts that go on after an answer are expected to find it in the cache."""
        return self._tails_refuted < _ENOUGH_REPORTS

    def tail_of(
        self, hashes: BlockHashes, held: int, token_ids: Sequence[int], block_size: int, now: float
    ) -> Tail | None:
        """The answer that a prompt takes up again, as far as it is still held, given how many of the prompt's own
        blocks are; None where there is none. An answer to a prompt shorter than one block is not followed.
        """
        tails = self._tails.get(hashes[held - 1], ()) if 0 < held < len(hashes) else ()
        start = held * block_size
        fitting = [tail for tail in tails if _goes_on(token_ids, start, tail.rest)]
        if not fitting:
            return None
        tail = max(fitting, key=lambda tail: len(tail.rest))
        overlap = self._index.match(tail.stand_ins, now).get(self._lane)
        still_held = 0 if overlap is None else min(overlap.blocks, len(hashes) - held)
        return dataclasses.replace(tail, stand_ins=tail.stand_ins.prefix(still_held)) if still_held else None

    def sent(self, hashes: BlockHashes, tail: Tail | None) -> None:
        """A prompt was dispatched; the blocks of the answer that it takes up are its own from now on."""
        if tail is not None and self.counts_on_tails:
            self._take_up(tail)
        self._index.predict(self._lane, hashes, math.inf)

    def withdrawn(self, hashes: BlockHashes, held: int, tail: Tail | None) -> None:
        """The worker never got to a prompt of which it held the first `held` blocks."""
        self._index.truncate(self._lane, hashes, held)
        if tail is not None and self.counts_on_tails:
            self._index.predict(self._lane, tail.stand_ins, math.inf)
            self._remember(tail)

    def ended(self, hashes: BlockHashes, token_ids: Sequence[int], block_size: int, output_tokens: int) -> None:
        """A prompt was answered with `output_tokens` tokens; 0 where their number is not known.

        The last token of an answer is never computed, so it is in no block.
        """
        computed = len(token_ids) + max(output_tokens - 1, 0)
        generated = computed // block_size - len(hashes)
        if generated > 0:
            stand_ins = self._stand_ins(generated)
            self._index.predict(self._lane, stand_ins, math.inf)
            if hashes:
                self._remember(Tail(hashes[len(hashes) - 1], tuple(token_ids[len(hashes) * block_size :]), stand_ins))
        self._index.predict(self._lane, hashes, math.inf)
        if computed % block_size:
            self._make_room()

    def reported(self, hashes: BlockHashes, block_size: int, expected: int, cached_tokens: int) -> None:
        """The engine found `cached_tokens` of a prompt where `expected` were predicted. To be called after `ended`.

        By then the engine has computed and cached the whole prompt, so that one report says nothing of what it holds
        now. But an engine that does so again and again keeps less than it was taken to: then its word is taken.
        """
        if cached_tokens < expected:
            self._hits_refuted += 1
        elif cached_tokens > 0:
            self._hits_refuted = 0
        if self._hits_refuted >= _ENOUGH_REPORTS:
            self._index.truncate(self._lane, hashes, cached_tokens // block_size)

    def tail_reported(self, tail: Tail, taken_up: bool) -> None:
        """Whether the engine found the answer that a prompt seemed to take up. To be called before `ended`."""
        counted_on = self.counts_on_tails
        self._tails_refuted = 0 if taken_up else self._tails_refuted + 1
        if counted_on and not taken_up:
            # The blocks are still there, under a name that no prompt has asked for yet.
            self._index.predict(self._lane, tail.stand_ins, math.inf)
        elif taken_up and not counted_on:
            self._take_up(tail)

    def _take_up(self, taken: Tail) -> None:
        known = self._tails.pop(taken.after, [])
        for tail in known:
            if tail.rest == taken.rest:
                self._index.truncate(self._lane, tail.stand_ins, 0)
        others = [tail for tail in known if tail.rest != taken.rest]
        if others:
            self._tails[taken.after] = others

    def _remember(self, tail: Tail) -> None:
        # Of several answers to one prompt the last is taken to be the one that is gone on with.
        others = [other for other in self._tails.pop(tail.after, ()) if other.rest != tail.rest]
        self._tails[tail.after] = [*others, tail][-_MOST_TAILS_PER_END:]
        if len(self._tails) > _MOST_ENDS:
            self._tails.popitem(last=False)

    def _make_room(self) -> None:
        """A block that is not full is never found again, but it has pushed another one out."""
        partial = self._stand_ins(1)
        self._index.predict(self._lane, partial, math.inf)
        self._index.truncate(self._lane, partial, 0)

    def _stand_ins(self, count: int) -> BlockHashes:
        return _NO_BLOCKS.extend(count, next(self._seeds))


def _goes_on(token_ids: Sequence[int], start: int, rest: tuple[int, ...]) -> bool:
    return tuple(token_ids[start : start + len(rest)]) == rest
