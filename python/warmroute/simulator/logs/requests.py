"""The requests of a log in blocks, as they are read, or all of them in the order of their times."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from warmroute.request_log.blocks import BlockedRequest, Blocking
from warmroute.request_log.reading import LogReading, check_any
from warmroute.request_log.request import BrokenLine, LoggedRequest, ToldPrompt

_SECOND_MS = 1_000
# Times that lie further apart have not been rounded: the log is of a few requests.
_COARSEST_MS = 60_000


@dataclass(slots=True)
class LogRequests:
    """All usable requests of a log, by time. `model`: only those for it were taken; `models` are those seen.

    rounded_to_s: what the log's times were rounded to where that is a second or more; they have been spread evenly.
    has_more: the log goes on, `limit` has ended the reading.
    """

    reading: LogReading
    requests: list[BlockedRequest]
    models: list[str] = field(default_factory=list)
    has_more: bool = False
    rounded_to_s: float | None = None


def blocked_requests(
    reading: LogReading,
    requests: Iterable[tuple[int, LoggedRequest]],
    blocking: Blocking,
    model: str | None = None,
    models: list[str] | None = None,
) -> Iterator[BlockedRequest]:
    """The requests as they are read; those that have no blocks, or others than the first ones', are noted as broken.

    model: only requests for it. models: every model is added, once.
    """
    size: int | None = None
    for number, request in requests:
        named = request.prompt.model if isinstance(request.prompt, ToldPrompt) else None
        if models is not None and named is not None and named not in models:
            models.append(named)
        if model is not None and named != model:
            reading.left_out["for another model"] += 1
            continue
        try:
            blocked = blocking.blocked(request)
        except BrokenLine as error:
            reading.note(number, str(error))
            continue
        size = size or blocked.block_tokens
        if blocked.block_tokens != size:
            reading.note(number, f"its blocks are of {blocked.block_tokens} tokens, those before it of {size}")
            continue
        reading.requests += 1
        yield blocked


def read_all(
    reading: LogReading,
    requests: Iterable[tuple[int, LoggedRequest]],
    blocking: Blocking,
    *,
    limit: int | None = None,
    model: str | None = None,
    keep_times: bool = False,
    told: Callable[[int], None] | None = None,
) -> LogRequests:
    """The first `limit` requests of a log, in the order of their times. `told` hears how many there are so far.

    Requests at the same moment are spread up to the next one where all moments lie a second or more apart, unless
    `keep_times`. ConfigError where there is no request.
    """
    log = LogRequests(reading, [])
    for request in blocked_requests(reading, requests, blocking, model, log.models):
        if limit is not None and len(log.requests) == limit:
            log.has_more = True
            reading.requests -= 1
            break
        log.requests.append(request)
        if told is not None:
            told(len(log.requests))
    check_any(reading)
    log.requests.sort(key=lambda request: request.at_s)
    if not keep_times:
        _spread(log)
    return log


def _spread(log: LogRequests) -> None:
    """Put requests at the same rounded time evenly into the time that it was rounded to."""
    milliseconds = [round(request.at_s * 1e3) for request in log.requests]
    moments = sorted(set(milliseconds))
    unit_ms = min((later - sooner for sooner, later in pairwise(moments)), default=0)
    if len(moments) == len(milliseconds) or not _SECOND_MS <= unit_ms <= _COARSEST_MS:
        return
    log.rounded_to_s = unit_ms / 1e3
    many = Counter(milliseconds)
    taken = Counter[int]()
    for position, at_ms in enumerate(milliseconds):
        log.requests[position] = _later(log.requests[position], log.rounded_to_s * taken[at_ms] / many[at_ms])
        taken[at_ms] += 1


def _later(request: BlockedRequest, seconds: float) -> BlockedRequest:
    ended_at_s = None if request.ended_at_s is None else request.ended_at_s + seconds
    return replace(request, at_s=request.at_s + seconds, ended_at_s=ended_at_s)
