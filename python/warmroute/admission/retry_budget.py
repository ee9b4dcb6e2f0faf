"""How many second tries there may be: a part of the requests, so that a failing fleet is not buried under them."""

from dataclasses import dataclass

# The floor's tokens are kept for so long: a router with little to do may try a few at once.
_FLOOR_KEPT_S = 10.0
# As many as one engine runs at once (vLLM's default is 256): when it dies, all of them want another one.
_MOST_SAVED = 256.0


@dataclass(slots=True)
class RetryBudget:
    """A bucket of tokens: each request puts `share` of one in, time `floor_per_s`, and a second try takes one.

    Times are seconds of any one monotonic clock. `spent` and `refused` count the tries that were asked for.
    """

    share: float = 0.2
    floor_per_s: float = 3.0
    spent: int = 0
    refused: int = 0
    _saved: float = 0.0
    _floor: float = -1.0  # negative: not begun
    _at: float = 0.0

    def request(self) -> None:
        """A request has come."""
        if self._saved < _MOST_SAVED:
            self._saved += self.share

    def take(self, now: float) -> bool:
        """Whether a request may be tried once more at `now`; then it counts."""
        most = self.floor_per_s * _FLOOR_KEPT_S
        self._floor = most if self._floor < 0.0 else min(most, self._floor + self.floor_per_s * (now - self._at))
        self._at = now
        if self._floor >= 1.0:
            self._floor -= 1.0
        elif self._saved >= 1.0:
            self._saved -= 1.0
        else:
            self.refused += 1
            return False
        self.spent += 1
        return True
