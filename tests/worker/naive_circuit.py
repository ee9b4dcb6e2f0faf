"""A circuit breaker that remembers everything and counts anew for each question: the readable definition."""

from dataclasses import dataclass, field
from math import inf

from warmroute.worker import Sign


@dataclass
class NaiveCircuit:
    """Keeps what happened as (what, sent_at, now) and derives the rest."""

    log: list[tuple[str, float, float]] = field(default_factory=list)
    open_times: list[float] = field(default_factory=list)
    retry_at: float = -inf
    is_open: bool = False
    trying: list[float] = field(default_factory=list)

    def allows(self, now: float) -> bool:
        tries = [sent for sent in self.trying if now - sent < 30.0]
        return not self.is_open or (now >= self.retry_at and not tries)

    def sent(self, now: float) -> None:
        if self.is_open and now >= self.retry_at:
            self.trying = [now]

    def began(self, sent_at: float, now: float) -> None:
        self.log.append(("alive", sent_at, now))
        if self.is_open and sent_at >= self.open_times[-1]:
            self._close(sent_at, now)

    def ended(self, sign: Sign, sent_at: float, now: float) -> None:
        if sign is Sign.SUCCESS:
            if not (self.is_open and sent_at < self.open_times[-1]):
                self.began(sent_at, now)
                self.log.append(("success", sent_at, now))
        elif sign in (Sign.FAILURE, Sign.SILENCE):
            self._failed(sign, sent_at, now)
        self.trying = [sent for sent in self.trying if sent != sent_at]

    def _failed(self, sign: Sign, sent_at: float, now: float) -> None:
        if self.is_open:
            if sent_at >= self.retry_at:
                self._open(now)
            return
        separate = sent_at >= self._counted_at()
        self.log.append(("separate" if separate else "failure", sent_at, now))
        dead = sign is Sign.SILENCE and not any(at >= sent_at for what, _, at in self.log if what == "alive")
        in_a_row = self._since("success", "closed").count("separate")
        share, apart = self._share()
        if dead or (separate and (self._rests() > 0 or in_a_row >= 3 or (share >= 0.4 and apart >= 2))):
            self._open(now)

    def _open(self, now: float) -> None:
        rest = min(1.0 * 2.0 ** self._rests(), 30.0)
        self.is_open, self.retry_at = True, now + rest
        self.open_times.append(now)
        self.log.append(("opened", now, now))

    def _close(self, sent_at: float, now: float) -> None:
        self.is_open, self.trying = False, []
        self.log.append(("closed", sent_at, now))

    def _since(self, *ends: str) -> list[str]:
        """What happened since the last of these."""
        found: list[str] = []
        for what, _, _ in reversed(self.log):
            if what in ends:
                break
            found.append(what)
        return found

    def _counted_at(self) -> float:
        """What was sent before this is old: the last failure that counted, or the request that closed the circuit."""
        for what, sent_at, now in reversed(self.log):
            if what in ("separate", "opened"):
                return now
            if what == "closed":
                return sent_at
        return -inf

    def _rests(self) -> int:
        return self._since("success").count("opened")

    def _share(self) -> tuple[float, int]:
        """The fading part of failures, and how many separate ones it remembers."""
        share, apart = 0.0, 0
        for what in reversed(self._since("closed")):
            if what in ("separate", "failure"):
                share += 0.1 * (1.0 - share)
                apart += what == "separate"
            elif what == "success":
                share -= 0.1 * share
                apart = 0 if share < 0.1 else apart
        return share, apart
