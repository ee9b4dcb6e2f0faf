"""Where each session was last answered, for prompts whose tokens cannot be told.

A session's next prompt nearly always repeats the last one, so the lane that answered that holds most of it. This is a
belief: it is looked at only where tokens are missing, and what a lane lost is not noticed but as a whole, when it is
cleared, or the worker restarts or goes.
"""

from collections import OrderedDict
from dataclasses import dataclass

from warmroute.prefix_index import PrefixIndex
from warmroute.router.decision import Decision, Outcome, RouteRequest
from warmroute.worker import LaneKey

# An entry is some 300 bytes, so these are 30 MB; a client can name as many sessions as it likes.
MOST_SESSIONS = 100_000
# As long as a client's word may be; beyond it it is no name.
LONGEST_NAME = 512
# How often it is seen whether lanes were cleared; it costs a call to the index for each lane.
_MAX_AGE_S = 1.0

_Key = tuple[str, str | None, str | None]


@dataclass(slots=True)
class _Life:
    """A lane from one loss of its contents to the next; `stored` counts the blocks it announced since."""

    lane: LaneKey
    stored: int
    over: bool = False


@dataclass(frozen=True, slots=True)
class _Answered:
    life: _Life
    tokens: int


class Sessions:
    """The lane and the tokens of each session's last answer; the least recently answered are forgotten first."""

    def __init__(self, index: PrefixIndex, most: int = MOST_SESSIONS) -> None:
        self._index = index
        self._most = most
        self._answers: OrderedDict[_Key, _Answered] = OrderedDict()
        self._lives: dict[LaneKey, _Life] = {}
        self._read_at: float | None = None

    def __len__(self) -> int:
        return len(self._answers)

    def held(self, request: RouteRequest) -> tuple[LaneKey, int] | None:
        """The lane that answered the request's session last, and how many tokens it was left with; None: not known.

        Never of a request whose tokens are all told.
        """
        if request.session is None or (request.token_ids is not None and request.complete):
            return None
        answered = self._answers.get(_key(request.session, request))
        return None if answered is None or answered.life.over else (answered.life.lane, answered.tokens)

    def answered(self, decision: Decision, outcome: Outcome) -> None:
        """Remember a request that was answered in whole. What the engine counted is better than what was estimated."""
        request = decision.request
        if request.session is None or len(request.session) > LONGEST_NAME or outcome.refused or not outcome.completed:
            return
        tokens = (outcome.prompt_tokens or request.prompt_tokens) + (outcome.output_tokens or 0)
        key = _key(request.session, request)
        self._answers[key] = _Answered(self._life(decision.lane.key), tokens)
        self._answers.move_to_end(key)
        if len(self._answers) > self._most:
            self._answers.popitem(last=False)

    def forget_lane(self, lane: LaneKey) -> None:
        """What the lane held is gone, or it is gone itself."""
        life = self._lives.pop(lane, None)
        if life is not None:
            life.over = True

    def refresh(self, now: float) -> None:
        """Notice lanes that were cleared: the index counts what was stored since. At most once a second."""
        if self._read_at is not None and 0.0 <= now - self._read_at < _MAX_AGE_S:
            return
        self._read_at = now
        for lane, life in list(self._lives.items()):
            stored = self._blocks_stored(lane)
            if stored < life.stored:
                self.forget_lane(lane)
            life.stored = stored

    def _life(self, lane: LaneKey) -> _Life:
        if lane not in self._lives:
            self._lives[lane] = _Life(lane, self._blocks_stored(lane))
        return self._lives[lane]

    def _blocks_stored(self, lane: LaneKey) -> int:
        return sum(self._index.block_sizes(lane).values())


def _key(session: str, request: RouteRequest) -> _Key:
    """Another model or salt is another cache."""
    return session, request.model, request.namespace.salt
