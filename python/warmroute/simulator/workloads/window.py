"""Which part of a long trace is played, and how fast: a whole hour would cost a minute and more for each policy."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Timed(Protocol):
    """A recorded request. `at_s` counts from the beginning of its trace."""

    @property
    def at_s(self) -> float: ...


_Recorded = TypeVar("_Recorded", bound=Timed)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of `trace_s` seconds of a trace, anywhere in it, played `speed` times as fast as it was recorded."""

    trace_s: float
    speed: float = 1.0

    def cut(self, recorded: Iterable[_Recorded], rng: random.Random) -> list[tuple[float, _Recorded]]:
        """What lies in a part that `rng` chooses, in order, each with its time from the start of the play."""
        in_order = sorted(recorded, key=lambda request: request.at_s)
        start = in_order[0].at_s
        begin = start + rng.random() * max(0.0, in_order[-1].at_s - start - self.trace_s)
        return [
            ((request.at_s - begin) / self.speed, request)
            for request in in_order
            if begin <= request.at_s < begin + self.trace_s
        ]
