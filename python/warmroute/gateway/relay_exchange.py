"""What the relay's face keeps of each request, and counts of all."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from warmroute._native import AttemptFailed, FirstByte, Outcome

OnFirstByte = Callable[[FirstByte], None]
OnEnd = Callable[[AttemptFailed | Outcome], None]


@dataclass(slots=True)
class RelayCounts:
    """What the face has seen since it was made."""

    arrivals: int = 0
    outcomes: int = 0
    failed_attempts: int = 0
    cut_off: int = 0  # requests that were not done when the grace of a shutdown ended
    unanswered: int = 0  # handlers that raised or returned without an answer
    callback_errors: int = 0


@dataclass(slots=True)
class Attempt:
    """One `forward`, `dispatch` or `respond` under way; `future` for those that somebody waits for."""

    future: asyncio.Future[AttemptFailed | Outcome] | None
    on_first_byte: OnFirstByte | None = None
    on_end: OnEnd | None = None


@dataclass(slots=True)
class Exchange:
    """One request from its arrival until both its outcome is known and its handler is done."""

    attempt: Attempt | None = None
    outcome: Outcome | None = None
    task: asyncio.Task[None] | None = None
    held: bool = False  # the worker's answer waits for pass_on
