"""A request on its way, and the session that it belongs to."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from warmroute.router import Decision, RouteRequest
from warmroute.simulator.workload import Session
from warmroute.worker import WorkerId


@dataclass(slots=True, eq=False)
class SessionRun:
    """A session in progress: which turns follow which, and how many have not ended yet."""

    session: Session
    open_turns: int = field(init=False)
    _followers: dict[int | None, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.open_turns = len(self.session.turns)
        self._followers = defaultdict(list)
        for position, turn in enumerate(self.session.turns):
            assert turn.after is None or turn.after < position, "a turn follows one that comes after it"
            self._followers[turn.after].append(position)

    def followers(self, position: int | None) -> list[int]:
        """The turns that may come once this one has ended; of None those at the session's start."""
        return self._followers.pop(position, [])


@dataclass(slots=True, eq=False)
class Flight:
    """One request from its arrival at the router to its end. `row` is its row in the ledger."""

    run: SessionRun
    position: int
    row: int
    request: RouteRequest
    answer: Sequence[int]
    decision: Decision | None = None
    first_at: float | None = None
    cached: int = 0
    tried: set[WorkerId] = field(default_factory=set)
