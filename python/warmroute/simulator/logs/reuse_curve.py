"""What a log's prompts have in common, told without a simulation: reuse by size of cache, and the working set.

For each block that had been seen before the number of other tokens that were touched since decides which caches still
hold it: one of LRU order does if it has room for them (the stack distance of R. L. Mattson et al., 1970). An engine
evicts from the tail of a chain first, so a block is never held without those before it, and blocks that a request
touched together can be counted together. Answers take room as well; they are found where the log tells that a prompt
goes on from another (see `continuations.py`), else what a client sends back of them is new text.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warmroute.request_log.blocks import BlockedRequest
from warmroute.simulator.logs.continuations import successors

WINDOWS = 12
"""Parts of the log's time for which the working set is told."""
# Distances are kept to a hundredth: enough for a size of cache, and few of them.
_STEP = math.log(1.01)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the log's time, from `start_s` after its beginning. working_set_tokens: different prompt tokens."""

    start_s: float
    requests: int
    prompt_tokens: int
    working_set_tokens: int


@dataclass(slots=True)
class ReuseCurve:
    """What could be reused of a log's prompt tokens, by the size of one cache that gets all requests."""

    requests: int = 0
    sessions: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    reusable_tokens: int = 0
    different_tokens: int = 0
    windows: list[Window] = field(default_factory=list)
    _by_distance: Counter[int] = field(default_factory=Counter)

    @property
    def reusable_share(self) -> float:
        """Of the prompt tokens those that one cache without end would hold."""
        return self.reusable_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def share_with(self, cache_tokens: int) -> float:
        """Of the prompt tokens those that a cache of this size would hold."""
        if not self.prompt_tokens or cache_tokens < 1:
            return 0.0
        last = _bucket(cache_tokens)
        return sum(tokens for bucket, tokens in self._by_distance.items() if bucket <= last) / self.prompt_tokens

    def cache_for(self, share: float) -> int:
        """Tokens of cache that give this share of what is reusable."""
        wanted, given = share * self.reusable_tokens, 0
        for bucket in sorted(self._by_distance):
            given += self._by_distance[bucket]
            if given >= wanted:
                return math.ceil(math.exp(bucket * _STEP))
        return 0


def reuse_curve(requests: Sequence[BlockedRequest], answer_tokens: Iterable[int]) -> ReuseCurve:
    """The curve for requests in the order of their times; `answer_tokens` are those of each."""
    curve, cache, later = ReuseCurve(), _Distances(len(requests)), successors(requests)
    for request, answer, successor in zip(requests, answer_tokens, later, strict=True):
        full, size, tokens = request.full_blocks, request.block_tokens, request.prompt_tokens + answer
        tail, answered = _tail_tokens(request), array("Q")
        if successor is not None:
            tail = 0  # the answer fills it up to another block
            going_on = requests[successor]
            answered = going_on.blocks[full : min(tokens // size, going_on.full_blocks)]
        new_tokens, blocks = request.prompt_tokens, request.blocks[: full + bool(tail)]
        for found_tokens, distance_tokens in cache.touch(blocks, answered, size, tokens, tail or size):
            curve._by_distance[_bucket(distance_tokens)] += found_tokens
            curve.reusable_tokens += found_tokens
            new_tokens -= found_tokens
        curve.different_tokens += new_tokens
        curve.requests += 1
        curve.prompt_tokens += request.prompt_tokens
        curve.answer_tokens += answer
    curve.sessions = len({request.session for request in requests if request.session is not None})
    curve.windows = _windows(requests)
    return curve


def _tail_tokens(request: BlockedRequest) -> int:
    """Tokens of a last block that is named though it is not full: equal names say that these are equal as well."""
    full = request.full_blocks
    return request.prompt_tokens - full * request.block_tokens if len(request.blocks) > full else 0


class _Distances:
    """The blocks seen, each with the last request that touched it, and how many tokens each request touched last."""

    def __init__(self, requests: int) -> None:
        self._last: dict[int, int] = {}
        self._tokens = _Sums(requests)
        self._next = 0

    def touch(
        self, blocks: "array[int]", answered: "array[int]", size: int, all_tokens: int, last_size: int
    ) -> list[tuple[int, int]]:
        """One more request. For each run of blocks that were last touched together: their tokens, and the distance.
        The last of `blocks` has `last_size` tokens, all others have `size`.

        `answered`: blocks that its answer has filled, as far as they are known. `all_tokens`: of prompt and answer,
        which take room from now on. A block counts only where all before it have been seen.
        """
        last, runs = self._last, list[tuple[int, int]]()
        for place, block in enumerate(blocks, 1):
            before, tokens = last.get(block), last_size if place == len(blocks) else size
            if before is None:
                break
            if runs and runs[-1][0] == before:
                runs[-1] = (before, runs[-1][1] + tokens)
            else:
                runs.append((before, tokens))
        found = [(tokens, self._tokens.since(before)) for before, tokens in runs]
        for before, tokens in runs:
            self._tokens.add(before, -tokens)
        self._tokens.add(self._next, all_tokens)
        for block in answered:
            if (before := last.get(block)) is not None:  # two have given the same answer
                self._tokens.add(before, -size)
        last.update(dict.fromkeys(blocks + answered, self._next))
        self._next += 1
        return found


class _Sums:
    """Numbers by position of which the sum from any position on is had in logarithmic time (P. M. Fenwick, 1994)."""

    def __init__(self, size: int) -> None:
        self._tree = [0] * (size + 1)
        self._total = 0

    def add(self, position: int, value: int) -> None:
        self._total += value
        at = position + 1
        while at < len(self._tree):
            self._tree[at] += value
            at += at & -at

    def since(self, position: int) -> int:
        """The sum from this position on."""
        before, at = 0, position
        while at > 0:
            before += self._tree[at]
            at -= at & -at
        return self._total - before


def _bucket(tokens: int) -> int:
    return math.ceil(math.log(max(1, tokens)) / _STEP - 1e-9)


def _windows(requests: Sequence[BlockedRequest]) -> list[Window]:
    begin, end = requests[0].at_s, requests[-1].at_s
    width_s = (end - begin) / WINDOWS
    if width_s <= 0:
        return [_window(0.0, requests)]
    parts: list[list[BlockedRequest]] = [[] for _ in range(WINDOWS)]
    for request in requests:
        parts[min(WINDOWS - 1, int((request.at_s - begin) / width_s))].append(request)
    return [_window(number * width_s, part) for number, part in enumerate(parts)]


def _window(start_s: float, requests: Sequence[BlockedRequest]) -> Window:
    seen, tails, rest = set[int](), dict[int, int](), 0
    for request in requests:
        full, tail = request.full_blocks, _tail_tokens(request)
        seen.update(request.blocks[:full])
        if tail:
            tails[request.blocks[full]] = tail
        else:
            rest += request.prompt_tokens - full * request.block_tokens
    rest += sum(tail for block, tail in tails.items() if block not in seen)
    size = requests[0].block_tokens if requests else 0
    prompt_tokens = sum(request.prompt_tokens for request in requests)
    return Window(start_s, len(requests), prompt_tokens, len(seen) * size + rest)
