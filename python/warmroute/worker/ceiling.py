"""At how many requests an engine begins to let them wait, learned from what its metrics show."""

from dataclasses import dataclass

# An engine in full use always shows a few waiting ones: those that came since its last step (one or two, at some ten
# requests a second and steps of 30 ms), and those that the router lets it have in stock. More of them, in two looks in
# a row, are a queue.
_FEWEST_WAITING = 4
_WAITING_SHARE = 8  # one for each so many running
# Forgotten by 1 % with each look that shows none: doubled in 70 s. Where as many run and none waits it was too low.
_FORGETTING = 1.01
_RAISE = 1.25
_BEYOND = 1e6


@dataclass(slots=True)
class Ceiling:
    """`at` is the number of running requests at which the engine queued, None where it was not seen to."""

    at: float | None = None
    _queued: int | None = None  # running requests at the last look, if others waited

    def look(self, running: int, waiting: int) -> None:
        """Take in what one look at the engine showed."""
        if waiting >= max(_FEWEST_WAITING, running / _WAITING_SHARE):
            if self._queued is not None:
                self.at = float(max(running, self._queued, 1))
            self._queued = running
            return
        self._queued = None
        if self.at is None or waiting:
            return
        self.at = running * _RAISE + 1.0 if running >= self.at else self.at * _FORGETTING
        if self.at > _BEYOND:
            self.at = None


def with_stock(runs: int, ranks: int) -> int:
    """From how many requests on an engine that runs `runs` at once is full.

    A few wait in the engine itself, so that a place that becomes free is taken in the very next step, not after a
    round trip to the router: two, one for each rank, or one for each 32 that run. Of 256 that answer 256 tokens each,
    one ends in each step of some 30 ms; the round trip takes a tenth of that.
    """
    return runs + max(2, ranks, runs // 32)
