"""What happens when, in virtual time."""

import heapq
from collections.abc import Callable


class Agenda:
    """Actions in the order of their times, in seconds; of equal times in the order in which they were entered."""

    def __init__(self) -> None:
        self.now = 0.0
        self._entries: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._entered = 0

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, when: float, action: Callable[..., None], *arguments: object) -> None:
        """Do something at a time that has not passed."""
        assert when >= self.now, f"{when} is over, it is {self.now}"
        self._entered += 1
        heapq.heappush(self._entries, (when, self._entered, action, arguments))

    def advance(self) -> bool:
        """Do what is due next; False where there is nothing."""
        if not self._entries:
            return False
        self.now, _, action, arguments = heapq.heappop(self._entries)
        action(*arguments)
        return True
