"""When a worker that fails, or says that it is busy, is left to itself: its circuit breaker.

    closed      requests go there
    open        they go elsewhere, for 1 s, then 2, 4, ... 30 s as long as it goes on
    half-open   one request at a time tries it; one that is answered closes it

Broken and busy are two things. What opens: connections that fail or are reset, silence, death in the middle of an
answer, 500, 502 and 504. 429 and 503 say "busy": the worker rests for the time that it names, else for 1 s and twice
as long each time, and that never opens anything. Other statuses say nothing of the worker's health: they are answers
to what was asked.

Times are seconds of any one monotonic clock; chance is an argument.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

FIRST_REST_S = 1.0
LONGEST_REST_S = 30.0

# Three separate failures in a row open: each costs a client its answer or a second try, and by chance, with one request
# in a hundred that the engine cannot take, they come together once in a million. A worker that has just been tried
# again and has not finished one request since is on probation: there one is enough.
FAILURES_IN_A_ROW = 3
# Of a worker that answers some requests in between: four failures among the last ten (the weight of older ones falls by
# a tenth with each), of which two at least were separate.
SHARE_GAIN = 0.1
LARGEST_SHARE = 0.4
FORGOTTEN_SHARE = 0.1
# The rests of routers and workers that failed together are spread by a quarter either way.
JITTER = 0.25
# A try that is not answered for so long leaves its place to another one: its own time-out may be ten minutes.
TRY_PATIENCE_S = 30.0


class Sign(StrEnum):
    """What the end of one request says of its worker. `SILENCE`: it kept quiet until a time-out."""

    SUCCESS = "success"
    FAILURE = "failure"
    SILENCE = "silence"
    BUSY = "busy"
    NOTHING = "nothing"


class CircuitState(StrEnum):
    """Whether a worker gets requests; see the module."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(slots=True)
class Circuit:
    """One worker's breaker. `sent` is said of each request that goes out while `at_rest` is false, `began` and
    `ended` of every one, with the time at which it was sent: failures that were under way together count once.
    """

    is_open: bool = False
    busy_until: float = -inf
    opened: int = 0
    busy_answers: int = 0
    retry_at: float = -inf
    _opened_at: float = -inf
    _rests: int = 0  # without a finished request in between
    _busy_rests: int = 0
    _in_a_row: int = 0
    _separate: int = 0  # among those that the share remembers
    _share: float = 0.0
    _counted_at: float = -inf
    _alive_at: float = -inf
    _trying_since: float | None = None

    def state(self, now: float) -> CircuitState:
        """Closed, open or half-open at `now`."""
        if not self.is_open:
            return CircuitState.CLOSED
        return CircuitState.OPEN if now < self.retry_at else CircuitState.HALF_OPEN

    def at_rest(self, now: float) -> bool:
        """Whether nothing is held against the worker at `now`."""
        return not self.is_open and now >= self.busy_until

    def allows(self, now: float) -> bool:
        """Whether the worker may get a request at `now`, while others can take it as well."""
        if now < self.busy_until:
            return False
        if not self.is_open:
            return True
        trying = self._trying_since is not None and now - self._trying_since < TRY_PATIENCE_S
        return now >= self.retry_at and not trying

    def left_alone_until(self) -> float:
        """When its present rest ends; minus infinity where it has none."""
        return max(self.busy_until, self.retry_at if self.is_open else -inf)

    def sent(self, now: float) -> None:
        """A request goes out. In a half-open circuit it is the try, and holds the others back until it has ended."""
        if self.is_open and now >= self.retry_at:
            self._trying_since = now

    def began(self, sent_at: float, now: float) -> None:
        """A request is answered, well so far: that is as much as a try has to show."""
        self._alive_at = now
        if self.is_open and sent_at >= self._opened_at:
            self._close(sent_at)

    def ended(self, sign: Sign, sent_at: float, now: float, retry_after_s: float | None = None, u: float = 0.5) -> None:
        """A request that went out at `sent_at` has ended. `u`: a random number in [0, 1), spreads the rests."""
        if sign is Sign.SUCCESS:
            self._succeeded(sent_at, now)
        elif sign is Sign.BUSY:
            self._said_busy(sent_at, now, retry_after_s)
        elif sign is not Sign.NOTHING:
            self._failed(sent_at, now, u, silent=sign is Sign.SILENCE)
        if self._trying_since == sent_at:
            self._trying_since = None

    def _succeeded(self, sent_at: float, now: float) -> None:
        if self.is_open and sent_at < self._opened_at:
            return  # it began before, and tells nothing of the worker as it is now
        self.began(sent_at, now)
        self._rests = self._busy_rests = self._in_a_row = 0
        self._share -= SHARE_GAIN * self._share
        if self._share < FORGOTTEN_SHARE:
            self._separate = 0

    def _said_busy(self, sent_at: float, now: float, retry_after_s: float | None) -> None:
        self.busy_answers += 1
        if retry_after_s:
            self.busy_until = max(self.busy_until, now + min(retry_after_s, LONGEST_REST_S))
        elif sent_at >= self.busy_until:
            self.busy_until = now + _rest_s(self._busy_rests)
            self._busy_rests += 1

    def _failed(self, sent_at: float, now: float, u: float, *, silent: bool) -> None:
        if self.is_open:
            if sent_at >= self.retry_at:
                self._open(now, u)
            return
        self._share += SHARE_GAIN * (1.0 - self._share)
        # Silent to all that it had, for as long as the time-out lasts: nobody else need wait for that.
        dead = silent and self._alive_at < sent_at
        if sent_at >= self._counted_at:
            self._in_a_row, self._separate, self._counted_at = self._in_a_row + 1, self._separate + 1, now
            probation = self._rests > 0
            often = self._share >= LARGEST_SHARE and self._separate >= 2
            dead = dead or probation or often or self._in_a_row >= FAILURES_IN_A_ROW
        if dead:
            self._open(now, u)

    def _open(self, now: float, u: float) -> None:
        self.is_open, self.opened, self._opened_at, self._counted_at = True, self.opened + 1, now, now
        self.retry_at = now + _rest_s(self._rests) * (1.0 + JITTER * (2.0 * u - 1.0))
        self._rests += 1

    def _close(self, sent_at: float) -> None:
        """The request sent at `sent_at` has shown that it works; what was sent before tells nothing new."""
        self.is_open, self._trying_since, self._counted_at = False, None, sent_at
        self._in_a_row, self._separate, self._share = 0, 0, 0.0


def _rest_s(rests: int) -> float:
    return min(FIRST_REST_S * 2.0 ** min(rests, 16), LONGEST_REST_S)
