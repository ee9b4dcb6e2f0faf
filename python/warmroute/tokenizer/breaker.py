"""When to leave an engine alone that does not answer."""

from dataclasses import dataclass, field

# Failures in a row before an engine is left alone; a single one is bad luck.
_FAILURES_ALLOWED = 3
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0
# A page that an engine does not have comes with another release or other flags, and so with a restart.
_MISSING_FOR_S = 300.0


@dataclass(slots=True)
class Breaker:
    """Closed while an engine answers; open for a while after failures in a row; then one question tries it.

    Times are seconds of any one monotonic clock. `begin` must be followed by `succeeded` or `failed`.
    """

    failures: int = 0
    retry_at: float = 0.0
    trying: bool = False

    def allows(self, now: float) -> bool:
        """Whether the engine may be asked at `now`; after a pause only by one at a time."""
        if self.failures < _FAILURES_ALLOWED:
            return True
        return now >= self.retry_at and not self.trying

    def begin(self) -> None:
        """A question is on its way."""
        self.trying = True

    def succeeded(self) -> None:
        """The engine answered."""
        self.failures, self.trying = 0, False

    def failed(self, now: float) -> None:
        """The engine did not answer, or not what it should; each failed try doubles the pause."""
        self.failures, self.trying = self.failures + 1, False
        if self.failures >= _FAILURES_ALLOWED:
            pauses = min(self.failures - _FAILURES_ALLOWED, 16)
            self.retry_at = now + min(FIRST_PAUSE_S * 2.0**pauses, LONGEST_PAUSE_S)


@dataclass(slots=True)
class EngineRecord:
    """What asking one engine has taught: whether it answers, and which pages it does not have."""

    breaker: Breaker = field(default_factory=Breaker)
    missing: dict[str, float] = field(default_factory=dict)

    def lacks(self, path: str, now: float) -> bool:
        """Whether the engine has said lately that it has no such page."""
        until = self.missing.get(path)
        return until is not None and now < until

    def note_missing(self, path: str, now: float) -> None:
        """The engine has no such page."""
        self.missing[path] = now + _MISSING_FOR_S
