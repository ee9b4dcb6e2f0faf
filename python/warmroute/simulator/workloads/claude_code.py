"""Sessions of a coding agent as they were recorded: long prompts that grow, tools in between, now and then sub-agents.

They are played as closed loops: a turn comes after the one before it has been answered and as much time has gone by as
then, so that faster answers make a faster session. How long answers took then is left out: that is what is simulated. A
sub-agent begins as long after the end of the main turn before it as it did, and runs beside what follows.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.simulator.workload import FleetPlan, Session, Turn
from warmroute.simulator.workloads.arrivals import poisson_process
from warmroute.simulator.workloads.coding_sessions import Limits, RecordedSession, RecordedTurn, read_coding_sessions
from warmroute.simulator.workloads.coding_text import spoken
from warmroute.simulator.workloads.pods import QWEN_32B_H100_TP2, with_context
from warmroute.simulator.workloads.recorded import Recorded
from warmroute.simulator.workloads.seeds import seed_of

# The median over the 45,022 answers whose time is recorded.
_USUAL_ANSWER_S = 6.1


@dataclass(frozen=True, slots=True)
class CodingSessions:
    """`rate` sessions begin in every second of the first `duration_s`: recorded ones in an order drawn by the seed.

    The recording does not say when sessions began, so a Poisson process does.
    """

    recorded: Sequence[RecordedSession] = field(repr=False)
    limits: Limits
    rate: float
    duration_s: float

    def sessions(self, seed: int) -> Iterator[Session]:
        rng = random.Random(seed_of(seed, "sessions"))
        playable = [session for session in self.recorded if self.limits.kept(session)]
        drawn = rng.sample(playable, len(playable))
        for number, start_s in enumerate(poisson_process(self.rate, self.duration_s, rng)):
            session = drawn[number % len(drawn)]
            yield Session(start_s, self._turns(session, seed, number), name=f"{session.id}-{number}")

    def _turns(self, session: RecordedSession, seed: int, number: int) -> list[Turn]:
        kept = self.limits.kept(session)
        opening_seed = seed_of(seed, "opening", session.tool_tokens, session.system_tokens)
        texts = spoken(session, kept, seed_of(seed, "session", number), opening_seed)
        return [
            Turn(text.prompt, text.answer, after, _wait_s(kept, position, after))
            for position, (text, after) in enumerate(zip(texts, _dependences(kept), strict=True))
        ]


def _dependences(turns: Sequence[RecordedTurn]) -> Iterator[int | None]:
    """For each turn the position of the one that it comes after: its agent's last, for a new agent the main one's."""
    last = dict[str | None, int]()
    for position, turn in enumerate(turns):
        yield last.get(turn.agent, last.get(None))
        last[turn.agent] = position


def _wait_s(turns: Sequence[RecordedTurn], position: int, after: int | None) -> float:
    """The recorded pause between the end of the turn before and this one.

    What the file says itself counts from the last turn whose answer's time it knows. If that is another one, the answer
    before is taken to have been as long as they usually were.
    """
    turn = turns[position]
    if after is None:
        return turn.t
    before = turns[after]
    if turn.think is not None and turn.agent == before.agent and before.api is not None:
        return turn.think
    return max(0.0, turn.t - before.t - (_USUAL_ANSWER_S if before.api is None else before.api))


_POD = with_context(QWEN_32B_H100_TP2, 131_072)


def _traffic(path: Path) -> CodingSessions:
    limits = Limits(session_s=900.0, context_tokens=_POD.context_tokens)
    return CodingSessions(read_coding_sessions(path), limits, rate=0.1, duration_s=600.0)


CLAUDE_CODE = Recorded(
    name="claude-code",
    about="the first 15 minutes of about 60 coding sessions begun within 10, 8 pods",
    fleet=FleetPlan((_POD,) * 8),
    file="claude_code/claude_code_710.delta.jsonl.gz",
    traffic=_traffic,
)
