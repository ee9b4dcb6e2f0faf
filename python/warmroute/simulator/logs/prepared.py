"""A log made ready to be played: answers that are not logged are guessed, what no engine takes is left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from warmroute.request_log.blocks import BlockedRequest
from warmroute.simulator.logs.anonymize import Anonymizer

LONGEST_PAUSE_S = 600.0
"""Longer times without a request are cut to this: idle engines change nothing, and simulating a night takes a while."""
UNKNOWN_ANSWER = 256
"""Tokens of an answer where the log tells of none, nor of a limit."""


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """Requests of which every answer's length is set.

    answers_by_limit, answers_by_mean: how many are guesses: what the client allows, or the mean of those logged.
    too_long: requests left out that are longer than `context_tokens`. cut_s: seconds of long pauses left out.
    with_session, with_end: how many name a session, and the time at which their answers were complete.
    """

    requests: list[BlockedRequest]
    context_tokens: int
    answers_by_limit: int
    answers_by_mean: int
    too_long: int
    cut_s: float

    @property
    def answer_tokens(self) -> list[int]:
        """Of each request."""
        return [request.answer_tokens or 1 for request in self.requests]

    @property
    def with_session(self) -> int:
        return sum(request.session is not None for request in self.requests)

    @property
    def with_end(self) -> int:
        return sum(request.ended_at_s is not None for request in self.requests)

    @property
    def duration_s(self) -> float:
        """From the first request to the last."""
        return self.requests[-1].at_s - self.requests[0].at_s

    def write(self, path: Path) -> None:
        """Write it down for other processes: without texts, and the same for the same log."""
        with path.open("wb") as file:
            file.writelines(Anonymizer(b"").lines(self.requests))


def prepared(requests: Sequence[BlockedRequest], context_tokens: int) -> PreparedLog:
    """Make requests, in the order of their times, ready for engines that take `context_tokens` of prompt and answer."""
    mean = _mean_answer(requests, context_tokens)
    answered = [_answered(request, mean, context_tokens) for request in requests]
    fitting = [each for each in answered if each.prompt_tokens + (each.answer_tokens or 1) <= context_tokens]
    by_limit = sum(each.answer_guessed and each.max_tokens == each.answer_tokens for each in fitting)
    moved, cut_s = _without_pauses(fitting)
    return PreparedLog(
        requests=moved,
        context_tokens=context_tokens,
        answers_by_limit=by_limit,
        answers_by_mean=sum(each.answer_guessed for each in fitting) - by_limit,
        too_long=len(answered) - len(fitting),
        cut_s=cut_s,
    )


def _mean_answer(requests: Sequence[BlockedRequest], context_tokens: int) -> int:
    """Of the requests that are played: one length that cannot be true would be everybody's."""
    logged = [
        each.answer_tokens
        for each in requests
        if each.answer_tokens is not None
        and not each.answer_guessed
        and each.prompt_tokens + each.answer_tokens <= context_tokens
    ]
    return max(1, round(fmean(logged))) if logged else UNKNOWN_ANSWER


def _answered(request: BlockedRequest, mean: int, context_tokens: int) -> BlockedRequest:
    """A limit is often as large as the context: it is what is asked for, but never more than fits."""
    if request.answer_tokens is not None:
        return request
    room = max(1, context_tokens - request.prompt_tokens)
    if request.max_tokens:
        limit = min(request.max_tokens, room)
        return replace(request, answer_tokens=limit, max_tokens=limit, answer_guessed=True)
    return replace(request, answer_tokens=min(mean, room), answer_guessed=True)


def _without_pauses(requests: Sequence[BlockedRequest]) -> tuple[list[BlockedRequest], float]:
    moved, cut_s = list[BlockedRequest](), 0.0
    before_s = requests[0].at_s if requests else 0.0
    for request in requests:
        cut_s += max(0.0, request.at_s - before_s - LONGEST_PAUSE_S)
        before_s = request.at_s
        ended_at_s = None if request.ended_at_s is None else request.ended_at_s - cut_s
        moved.append(replace(request, at_s=request.at_s - cut_s, ended_at_s=ended_at_s) if cut_s else request)
    return moved, cut_s
