"""Recorded sessions of a coding agent: what the lines of the file say, and what of a session is played.

The file is made from callanjfox/kv-cache-tester (traces/), one line a session. Each request of it says when it was
sent, how many tokens went in and came out, how long the answer took and how long nothing happened before, and which
blocks of 64 tokens the prompt consists of: the first `keep` of the agent's request before, then `runs` of (first id,
count).
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from warmroute.errors import ConfigError
from warmroute.simulator.workloads.lines import read_records

Run = tuple[int, int]
"""Consecutive block ids: the first one, and how many."""


class RecordedTurn(msgspec.Struct, frozen=True):
    """`agent` names a sub-agent; None is the main one. `think` and `api` are in seconds; not every request has them."""

    t: float
    prompt_tokens: int = msgspec.field(name="in")
    answer_tokens: int = msgspec.field(name="out")
    keep: int
    runs: list[Run]
    api: float | None = None
    think: float | None = None
    agent: str | None = None


class RecordedSession(msgspec.Struct, frozen=True):
    """One session; its block ids mean nothing outside of it."""

    id: str
    block_size: int
    tool_tokens: int
    system_tokens: int
    requests: list[RecordedTurn]


@dataclass(frozen=True, slots=True)
class Limits:
    """What of a session is played: the turns of its first `session_s` seconds as recorded, up to one that is too long.

    Too long are prompt and answer of more than `context_tokens`: there the agent would have to shorten its history, and
    when it was recorded it did not.
    """

    session_s: float
    context_tokens: int

    def kept(self, session: RecordedSession) -> list[RecordedTurn]:
        """The turns that are played, from the first on."""
        kept = list[RecordedTurn]()
        for turn in session.requests:
            if turn.t > self.session_s or turn.prompt_tokens + turn.answer_tokens > self.context_tokens:
                break
            kept.append(turn)
        return kept


def read_coding_sessions(path: Path) -> list[RecordedSession]:
    """All sessions of the file but copies: several of it repeat the times and sizes of another one.

    ConfigError names the line that is wrong.
    """
    found = dict[tuple[tuple[float, int, int], ...], RecordedSession]()
    for number, session in read_records(path, RecordedSession):
        _check(path, number, session)
        series = tuple((turn.t, turn.prompt_tokens, turn.answer_tokens) for turn in session.requests)
        found.setdefault(series, session)
    return list(found.values())


def _check(path: Path, number: int, session: RecordedSession) -> None:
    """What the prompts are built on: they consist of their blocks and less than one more."""
    held = dict[str | None, int]()
    for position, turn in enumerate(session.requests):
        blocks = min(turn.keep, held.get(turn.agent, 0)) + sum(count for _, count in turn.runs)
        held[turn.agent] = blocks
        if not 0 <= turn.prompt_tokens - blocks * session.block_size < session.block_size or turn.prompt_tokens < 1:
            raise ConfigError(
                f"{path}, line {number}: request {position} has {turn.prompt_tokens} tokens, but {blocks} full blocks"
                f" of {session.block_size}"
            )
