"""Candidates that differ from one that was considered in a single figure: what it holds, or what it has to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from warmroute.block import Overlap
from warmroute.policy import Candidate
from warmroute.worker import LARGEST_COUNT, Load


class Figure(StrEnum):
    """A figure of a candidate that policies look at."""

    CACHED_TOKENS = "cached_tokens"
    REQUESTS = "requests"
    QUEUED_TOKENS = "queued_tokens"

    def of(self, candidate: Candidate) -> int:
        """What the candidate has of it."""
        return _VALUES[self](candidate)


@dataclass(frozen=True, slots=True)
class Lever:
    """A candidate's figure, which can be moved up (`sign` 1) or down (-1) by at most `steps`.

    A step is one request, one queued token, or the cached tokens of one block.
    """

    candidate: Candidate
    figure: Figure
    sign: int
    steps: int

    def moved(self, steps: int) -> Candidate:
        """The candidate after so many steps."""
        return _MOVES[self.figure](self.candidate, self.sign * steps)


def towards_the_best(candidate: Candidate) -> tuple[Lever, ...]:
    """More of the prompt held, less load; without what has no room left to become better."""
    usable = max(0, candidate.prompt_tokens - 1) // candidate.block_size
    levers = (
        Lever(candidate, Figure.CACHED_TOKENS, 1, usable - _held(candidate)),
        Lever(candidate, Figure.REQUESTS, -1, candidate.load.requests),
        Lever(candidate, Figure.QUEUED_TOKENS, -1, candidate.load.queued_tokens),
    )
    return tuple(lever for lever in levers if lever.steps > 0)


def towards_the_worst(candidate: Candidate) -> tuple[Lever, ...]:
    """Less of the prompt held, more load."""
    levers = (
        Lever(candidate, Figure.CACHED_TOKENS, -1, _held(candidate)),
        Lever(candidate, Figure.REQUESTS, 1, LARGEST_COUNT),
        Lever(candidate, Figure.QUEUED_TOKENS, 1, LARGEST_COUNT),
    )
    return tuple(lever for lever in levers if lever.steps > 0)


def idle(candidate: Candidate) -> Candidate:
    """The candidate without any load."""
    return replace(candidate, load=Load())


def _held(candidate: Candidate) -> int:
    """Whole blocks whose tokens need no prefill; the block of the last token, which always does, is none of them."""
    return candidate.cached_tokens // candidate.block_size


def _holding_more(candidate: Candidate, more: int) -> Candidate:
    blocks = _held(candidate) + more
    overlap = (_grown if more > 0 else _shrunk)(candidate.overlap, blocks)
    return replace(candidate, overlap=overlap, cached_tokens=blocks * candidate.block_size)


def _grown(overlap: Overlap, blocks: int) -> Overlap:
    """So many blocks, at least: those that come lie on the GPU."""
    device = overlap.device + max(0, blocks - overlap.blocks)
    return Overlap(device, overlap.host, overlap.disk, overlap.remote, overlap.predicted)


def _shrunk(overlap: Overlap, blocks: int) -> Overlap:
    """So many blocks, at most: those that go are the ones that are only expected, then those furthest from the GPU."""
    kept: list[int] = []
    for count in (overlap.device, overlap.host, overlap.disk, overlap.remote, overlap.predicted):
        kept.append(min(count, blocks - sum(kept)))
    return Overlap(*kept)


def _with_more_requests(candidate: Candidate, more: int) -> Candidate:
    """Where requests wait in the engine these are the last to come and the first to go; after them those that stream.

    Those that are not prefilled yet stay: their tokens are a figure of their own.
    """
    load = candidate.load
    requests = load.requests + more
    waiting = max(0, load.waiting + more) if load.waiting else 0
    decoding = load.decoding + more + load.waiting - waiting
    changed = replace(load, requests=requests, decoding=min(max(0, decoding), requests), waiting=waiting)
    return replace(candidate, load=changed)


def _with_more_queued(candidate: Candidate, more: int) -> Candidate:
    """As much stands before each token as before those that are queued; before the first ones as in our own prompt."""
    load = candidate.load
    queued = load.queued_tokens + more
    before_each = load.queued_attended / load.queued_tokens if load.queued_tokens else candidate.prompt_tokens / 2
    changed = replace(load, queued_tokens=queued, queued_attended=round(queued * before_each))
    return replace(candidate, load=changed)


_VALUES: Mapping[Figure, Callable[[Candidate], int]] = {
    Figure.CACHED_TOKENS: lambda candidate: candidate.cached_tokens,
    Figure.REQUESTS: lambda candidate: candidate.load.requests,
    Figure.QUEUED_TOKENS: lambda candidate: candidate.load.queued_tokens,
}
_MOVES: Mapping[Figure, Callable[[Candidate, int], Candidate]] = {
    Figure.CACHED_TOKENS: _holding_more,
    Figure.REQUESTS: _with_more_requests,
    Figure.QUEUED_TOKENS: _with_more_queued,
}
