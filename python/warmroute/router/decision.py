"""What the router is asked, what it decides, and what becomes of that.

None of these is changed once it is made, but for the booking of a decision. They are not declared frozen because making
a frozen one of a dozen fields takes 3 us more, and each request makes four.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from warmroute.block import BlockHashes, Namespace, Overlap
from warmroute.cache_model import Tail
from warmroute.errors import RefusalReason
from warmroute.openai_api import Match
from warmroute.policy import Candidate, Cost, Policy, PolicyRequest
from warmroute.worker import Booking, Lane, Sign, Worker, WorkerId

_BUSY = (429, 503)
_BROKEN = (500, 502, 504)


@dataclass(slots=True)
class RouteRequest:
    """What the router needs to know of a request.

    token_ids: the prompt whose prefix is looked up; None when it could not be told: then load and session decide.
    prompt_tokens: all tokens to prefill, over all prompts of the body; an estimate unless the match is exact.
    rank: the data-parallel rank that the client itself asks for; where a worker has it, no other is considered.
    complete: False where `token_ids` are only a true prefix of the prompt.
    untold: one word for why the match is not exact; None where it is, or where there is no prompt.
    session: what the client names as its conversation; looked at only where the match is not exact.
    """

    request_id: str
    model: str | None
    token_ids: Sequence[int] | None
    prompt_tokens: int
    stream: bool = False
    max_tokens: int | None = None
    namespace: Namespace = field(default_factory=Namespace)
    rank: int | None = None
    complete: bool = True
    untold: str | None = None
    session: str | None = None

    @property
    def match(self) -> Match:
        """How well the prompt is known."""
        if self.token_ids is None:
            return Match.NONE
        return Match.EXACT if self.complete else Match.TEXT_PREFIX


@dataclass(slots=True)
class WorkerCost:
    """One worker's line in a decision: its best lane, what that holds of the prompt, and the load on it.

    followed: the lane's KV events are heard; without them its cache is guessed from what it was sent.
    session_tokens: of `cached_tokens` those that are only believed because the session was answered there.
    """

    worker: WorkerId
    cost: Cost
    overlap: Overlap
    cached_tokens: int
    requests: int
    queued_tokens: int
    lane: Lane
    followed: bool
    session_tokens: int = 0


@dataclass(slots=True)
class Foundation:
    """What a decision's prediction of cached tokens rests on, and what is entered into the index for it.

    followed: the lane's events are heard; without them the cache is guessed from what was sent.
    settled: no other prompt was still to be computed there, so that what it holds did not hang on one.
    block_hashes: of the prompt, in blocks of `block_size`; None where its tokens are not known.
    held_blocks: how many of these the lane held or was predicted to hold.
    tail: the answer that the prompt seems to continue, on a lane without events.
    """

    followed: bool
    settled: bool
    block_size: int
    block_hashes: BlockHashes | None = None
    held_blocks: int = 0
    tail: Tail | None = None


@dataclass(slots=True)
class Decision:
    """Which worker and which of its lanes, and why: the cost of each candidate split in its terms.

    tokens_ahead: prompt tokens to compute there before the first byte, ours included; `attended_ahead` are those before
    each of them.
    asked: what `decided_by` was asked about the candidates, so that it can be asked again.
    eligible: how many workers could have got it; of a large fleet some of them only are candidates.
    """

    request: RouteRequest
    worker: Worker
    lane: Lane
    policy: str
    unit: str
    cached_tokens: int
    tokens_ahead: int
    running: int
    decided_at: float
    position: int
    candidates: Sequence[Candidate] = field(repr=False)
    costs: Sequence[Cost] = field(repr=False)
    asked: PolicyRequest = field(repr=False)
    decided_by: Policy = field(compare=False, repr=False)
    eligible: int
    foundation: Foundation = field(compare=False, repr=False)
    session_tokens: Sequence[int] = field(default=(), compare=False, repr=False)
    attended_ahead: int = 0
    booking: Booking | None = field(default=None, compare=False)

    @property
    def considered(self) -> tuple[WorkerCost, ...]:
        """A line for each worker that could have got the request; made when asked for, as few ask."""
        credits = self.session_tokens or (0,) * len(self.candidates)
        return tuple(map(_line, self.candidates, self.costs, credits))

    @property
    def chosen(self) -> WorkerCost:
        """The line of the worker that got it."""
        credit = self.session_tokens[self.position] if self.session_tokens else 0
        return _line(self.candidates[self.position], self.costs[self.position], credit)


@dataclass(frozen=True, slots=True)
class Refusal:
    """No worker can take the request. `detail` is for a person.

    retry_after_s: after how long another try may find one; None where that is not known.
    """

    reason: RefusalReason
    detail: str
    retry_after_s: float | None = None


@dataclass(slots=True)
class Outcome:
    """What became of a dispatched request; times in seconds of the router's clock, None where not known.

    completed: the worker's whole answer went to the client.
    worker_failed: the worker is to blame (refused, reset, died); a client that left is nobody's fault.
    cached_tokens: as the engine reports them; None means unknown, not zero.
    silent: the worker failed by keeping quiet until a time-out.
    unsent: it never came to the worker, for a reason that lies with the router itself.
    retry_after_s: for how long a worker that is busy asks to be left alone.
    """

    completed: bool
    worker_failed: bool
    ended_at: float
    first_byte_at: float | None = None
    status: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    silent: bool = False
    unsent: bool = False
    retry_after_s: float | None = None

    @property
    def sign(self) -> Sign:
        """What this says of the worker's health. What a client does or asks, and other 4xx, say nothing."""
        if self.unsent:
            return Sign.NOTHING
        if self.status in _BUSY:
            return Sign.BUSY
        if self.worker_failed:
            return Sign.SILENCE if self.silent else Sign.FAILURE
        if self.status in _BROKEN:
            return Sign.FAILURE
        return Sign.SUCCESS if self.completed and not self.refused else Sign.NOTHING

    @property
    def refused(self) -> bool:
        """Whether the worker answered with an error."""
        return self.status is not None and self.status >= 400

    @property
    def computed_nothing(self) -> bool:
        """Whether the worker surely did not get to the prompt: it broke off before it answered, or refused."""
        return self.refused or self.unsent or (self.worker_failed and self.first_byte_at is None)


@runtime_checkable
class RouterObserver(Protocol):
    """Somebody who is told what the router did; handed in, never imported."""

    def decided(self, decision: Decision) -> None:
        """A request was given to a worker."""

    def refused(self, request: RouteRequest, refusal: Refusal) -> None:
        """No worker was found for a request."""

    def settled(self, decision: Decision, outcome: Outcome) -> None:
        """A dispatched request ended."""


def _line(candidate: Candidate, cost: Cost, session_tokens: int) -> WorkerCost:
    return WorkerCost(
        candidate.worker.id,
        cost,
        candidate.overlap,
        candidate.cached_tokens,
        candidate.load.requests,
        candidate.load.queued_tokens,
        candidate.lane,
        candidate.lane.followed,
        session_tokens,
    )
