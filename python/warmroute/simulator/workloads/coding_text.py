"""The prompts and answers of a recorded session, from the block ids in it.

Every run of new ids becomes a text of its own, and an id that comes again stands for the same tokens. Two assumptions:

- Sessions with equal sizes of tools and system prompt begin with the same tools and system prompt.
- A prompt that keeps all blocks of the one before continues its text: with the rest that fills no block, then with the
  answer, if it has grown by that much (83 % of all later turns). So blocks that an engine has filled while it answered
  are found again, as on a real one.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmroute.simulator.tokens import Joined, Text, Tokens
from warmroute.simulator.workloads.coding_sessions import RecordedSession, RecordedTurn
from warmroute.simulator.workloads.seeds import seed_of


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The ids from `begin` to `end` of the endless text with this seed."""

    seed: int
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def ids(self) -> "array[int]":
        made = Text(self.seed, self.end).ids()
        return made[self.begin :] if self.begin else made


@dataclass(frozen=True, slots=True)
class Spoken:
    """A turn's two texts."""

    prompt: Tokens
    answer: Tokens


def spoken(session: RecordedSession, turns: Sequence[RecordedTurn], seed: int, opening_seed: int) -> list[Spoken]:
    """Prompt and answer of each of these turns, which are the session's first ones.

    `opening_seed` is the one of the tools and the system prompt.
    """
    blocks = _full_blocks(session, turns, seed, opening_seed)
    texts = dict[int, list[Excerpt]]()
    following = dict[str | None, int]()
    for position in reversed(range(len(turns))):
        turn, after = turns[position], following.get(turns[position].agent)
        if after is not None and _continues(turns[after], turn, session.block_size):
            texts[position] = _first(texts[after], _said_tokens(turn))
        else:
            rest = _said_tokens(turn) - turn.prompt_tokens // session.block_size * session.block_size
            texts[position] = [*blocks[position], Excerpt(seed_of(seed, "end", position), 0, rest)]
        following[turn.agent] = position
    return [_split(texts[position], turn.prompt_tokens) for position, turn in enumerate(turns)]


def _continues(later: RecordedTurn, turn: RecordedTurn, block_size: int) -> bool:
    """Whether the later turn's prompt begins with all that was said in this one."""
    keeps_all = later.keep == turn.prompt_tokens // block_size
    return keeps_all and later.prompt_tokens >= _said_tokens(turn)


def _said_tokens(turn: RecordedTurn) -> int:
    """Prompt and answer; every engine gives one token at least."""
    return turn.prompt_tokens + max(1, turn.answer_tokens)


def _full_blocks(
    session: RecordedSession, turns: Sequence[RecordedTurn], seed: int, opening_seed: int
) -> list[list[Excerpt]]:
    """What the full blocks of each turn's prompt say."""
    known = _KnownBlocks(session.block_size, seed)
    known.learn_opening(session, opening_seed)
    before = dict[str | None, list[Excerpt]]()
    prompts = list[list[Excerpt]]()
    for turn in turns:
        parts = _first(before.get(turn.agent, []), turn.keep * session.block_size)
        for first, count in turn.runs:
            parts += known.excerpts(first, count)
        before[turn.agent] = parts
        prompts.append(parts)
    return prompts


@dataclass(frozen=True, slots=True)
class _Stretch:
    """`count` consecutive ids that stand for consecutive blocks of one text, from its block `at` on."""

    first: int
    count: int
    seed: int
    at: int


class _KnownBlocks:
    """What each block id of a session stands for."""

    def __init__(self, block_size: int, seed: int) -> None:
        self._block_size, self._seed = block_size, seed
        self._stretches: list[_Stretch] = []

    def learn_opening(self, session: RecordedSession, seed: int) -> None:
        """The first blocks of the first prompt are those of the tools and the system prompt, where it has so many."""
        at, left = 0, (session.tool_tokens + session.system_tokens) // session.block_size
        for first, count in session.requests[0].runs:
            taken = min(count, left - at)
            if taken > 0:
                self._stretches.append(_Stretch(first, taken, seed, at))
                at += taken

    def excerpts(self, first: int, count: int) -> Iterator[Excerpt]:
        """The texts of a run of ids; new ids are given a text."""
        end = first + count
        while first < end:
            stretch = self._stretch_from(first, end)
            last = min(end, stretch.first + stretch.count)
            skipped = first - stretch.first + stretch.at
            taken = last - first
            yield Excerpt(stretch.seed, skipped * self._block_size, (skipped + taken) * self._block_size)
            first = last

    def _stretch_from(self, first: int, end: int) -> _Stretch:
        """The known stretch that has this id, or a new one up to `end` or to what is known."""
        for stretch in reversed(self._stretches):
            if stretch.first <= first < stretch.first + stretch.count:
                return stretch
            if first < stretch.first < end:
                end = stretch.first
        new = _Stretch(first, end - first, seed_of(self._seed, "block", first), 0)
        self._stretches.append(new)
        return new


def _first(parts: Sequence[Excerpt], tokens: int) -> list[Excerpt]:
    """As many of `parts` as make up the first `tokens`."""
    taken = list[Excerpt]()
    for part in parts:
        if tokens <= 0:
            break
        taken.append(part if len(part) <= tokens else Excerpt(part.seed, part.begin, part.begin + tokens))
        tokens -= len(part)
    return taken


def _split(parts: Sequence[Excerpt], tokens: int) -> Spoken:
    """The first `tokens` are the prompt, the others the answer."""
    prompt = _first(parts, tokens)
    answer, left = list[Excerpt](), tokens
    for part in parts:
        if left < len(part):
            answer.append(Excerpt(part.seed, part.begin + max(0, left), part.end))
        left = max(0, left - len(part))
    return Spoken(Joined(tuple(prompt)), Joined(tuple(answer)))
