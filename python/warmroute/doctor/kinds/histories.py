"""Conversations whose beginning changes as they go on: cut, summarised, or without what was thought."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmroute.doctor.case import Case, Pair, message_path, said, without_reasoning
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds.labels import SUMMARY
from warmroute.doctor.kinds.volatile import MovedUnits, stable_units
from warmroute.doctor.leaves import Path, Zone, messages_of, with_messages, zone_of
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.doctor.units import key, units
from warmroute.openai_api import Endpoint, JsonObject

_SHOWN = 400
# A summary is one message, or one and the answer that acknowledges it.
_MOST_NEW = 2
# A conversation is put together again up to so many messages.
_MOST_MESSAGES = 4_000
_MOST_REMEMBERED = 16_000
# A single cut or summary costs once, and a context has to end somewhere.
_FEWEST_CUTS = 2

Turns = tuple[Hashable, Hashable]


@dataclass(frozen=True, slots=True)
class Recalled:
    """Conversations with the messages in front that were sent with earlier requests and left out later.

    before: what stood in front of two consecutive messages. summary: takes a summary out of the system prompt.
    """

    endpoint: Endpoint
    summary: MovedUnits | None = None
    before: dict[Turns, Any] = field(default_factory=dict)

    def observe(self, body: JsonObject) -> None:
        """Remember a body's order of messages, where it is not known yet."""
        messages = [each for each in messages_of(body, self.endpoint) if zone_of(each) is not Zone.SYSTEM]
        keys = [said(each) for each in messages]
        for at in range(1, len(messages) - 1) if len(self.before) < _MOST_REMEMBERED else ():
            self.before.setdefault((keys[at], keys[at + 1]), messages[at - 1])

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with the whole conversation; what took the place of its beginning is left out."""
        everything = messages_of(body, self.endpoint)
        system = [each for each in everything if zone_of(each) is Zone.SYSTEM]
        messages = [each for each in everything if zone_of(each) is not Zone.SYSTEM]
        keys = [said(each) for each in messages]
        for at in range(min(len(messages) - 1, _MOST_NEW + 2)):
            front = self._front(keys[at], keys[at + 1])
            if len(front) > at:
                whole = with_messages(body, self.endpoint, [*system, *front, *messages[at:]])
                return whole if self.summary is None else self.summary.without(whole)
        return dict(body)

    def _front(self, first: Hashable, second: Hashable) -> list[Any]:
        """What is known to have stood in front of two messages, from the beginning of their conversation on."""
        front: list[Any] = []
        seen: set[Turns] = set()
        while (first, second) in self.before and (first, second) not in seen and len(front) < _MOST_MESSAGES:
            seen.add((first, second))
            front.append(self.before[first, second])
            first, second = said(front[-1]), first
        return front[::-1]


@dataclass(frozen=True, slots=True)
class RecalledThoughts:
    """Conversations in which what was thought before an answer stays as it was first sent, by what the answer says."""

    endpoint: Endpoint
    thought: dict[Hashable, list[Any]] = field(default_factory=dict)

    def observe(self, body: JsonObject) -> None:
        """Remember each message that was sent with its reasoning."""
        for items in _with_thoughts(messages_of(body, self.endpoint)):
            if _is_thoughtful(items) and len(self.thought) < _MOST_REMEMBERED:
                self.thought.setdefault(said(items[-1]), items)

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with the reasoning put back."""
        kept = _with_thoughts(messages_of(body, self.endpoint))
        messages = [each for items in kept for each in self.thought.get(said(items[-1]), items)]
        return with_messages(body, self.endpoint, messages) if messages else dict(body)


def _with_thoughts(messages: Sequence[Any]) -> list[list[Any]]:
    """Each message behind the items of reasoning that stand in front of it."""
    groups: list[list[Any]] = [[]]
    for message in messages:
        groups[-1].append(message)
        if without_reasoning(message) is not None:
            groups.append([])
    return [group for group in groups if group]


def _detect(pair: Pair) -> Sequence[Clue]:
    if pair.parted is None and len(pair.left.messages) == len(pair.right.messages):
        return []
    return _thoughts(pair) or _history(pair)


def _thoughts(pair: Pair) -> Sequence[Clue]:
    """The first message that says the same on both sides, with and without reasoning."""
    left = _with_thoughts(pair.left.messages)
    right = _with_thoughts(pair.right.messages)
    before = 0
    for a, b in zip(left, right, strict=False):
        if said(a[-1]) != said(b[-1]):
            return []
        if a != b and _is_thoughtful(a) != _is_thoughtful(b):
            path = message_path(pair.left, pair.left.first_message + before)
            return [Clue(Kind.REASONING_DROPPED, path, 0, _shown(a), _shown(b), gathered_by=("messages",))]
        before += len(a)
    return []


def _is_thoughtful(items: Sequence[Any]) -> bool:
    return any(without_reasoning(each) != each for each in items)


def _shown(value: Any) -> str:
    return str(value)[:_SHOWN]


def _history(pair: Pair) -> Sequence[Clue]:
    left, right = pair.left.turns, pair.right.turns
    kept = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    if kept is None:
        return []
    found = _cut(left, right, kept)
    if found is None:
        return []
    new, dropped = found
    path: Path = message_path(pair.left, pair.left.first_message + kept)
    kind = Kind.HISTORY_SUMMARISED if new else Kind.HISTORY_TRUNCATED
    if not new and (system := _summary_in_system(pair)) is not None:
        kind, path = Kind.HISTORY_SUMMARISED, system
    shown = _text(pair.left.messages[kept]), _text(pair.right.messages[kept])
    return [Clue(kind, path, 0, *shown, detail=dropped)]


def _cut(left: Sequence[Hashable], right: Sequence[Hashable], kept: int) -> tuple[int, int] | None:
    """How many messages of the right one are new behind those kept, and how many of the left one are left out there.

    None where the right one does not go on as the left one does further on, to the end of either, for two messages.
    """
    for new in range(_MOST_NEW + 1):
        rest = right[kept + new :]
        if len(rest) < 1:
            return None
        for start in range(kept + max(1, new), len(left)):
            run = min(len(rest), len(left) - start)
            if list(left[start : start + run]) == list(rest[:run]) and (
                run > 1 or (new == 0 and len(left) == start + 1)
            ):
                # A message in place of another one is a changed message, not a history that was cut.
                return (new, start - kept) if start - kept > new or new == 0 else None
    return None


def _summary_in_system(pair: Pair) -> Path | None:
    """The system prompt's field where that has changed, and tells of what went before."""
    assert pair.parted is not None
    left, right = pair.parted
    if left.zone is not Zone.SYSTEM or left.path != right.path:
        return None
    known, parts = set(map(key, units(left.text))), units(right.text)
    fresh = [at for at, part in enumerate(parts) if key(part) not in known]
    # What a summary is called may be the same each time; it stands in front.
    return left.path if fresh and SUMMARY.search("".join(parts[max(0, fresh[0] - 1) :])) else None


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    return content if isinstance(content, str) else str(content)


def _judge(suspect: Suspect, cases: Sequence[Case]) -> Verdict | None:
    endpoint = cases[0].endpoint
    if suspect.kind is Kind.REASONING_DROPPED:
        thoughts = RecalledThoughts(endpoint)
        for case in cases:
            thoughts.observe(case.body)
        return Verdict(suspect.kind, thoughts, "send earlier answers with their reasoning as they were first sent")
    if len(suspect.clues) < _FEWEST_CUTS:
        return None
    in_system = all(pair.parted is not None and pair.parted[0].path == suspect.path for pair, _ in suspect.clues)
    summary = MovedUnits(suspect.path, endpoint, stable_units(cases, suspect.path), True) if in_system else None
    recalled = Recalled(endpoint, summary)
    for case in cases:
        recalled.observe(case.body)
    truncated = suspect.kind is Kind.HISTORY_TRUNCATED
    advice = (
        "keep the beginning of the conversation, or cut it seldom and by many messages at once"
        if truncated
        else "keep the messages and summarise them seldom, many at once; the summary then stays as it is"
    )
    return Verdict(suspect.kind, recalled, advice)


GROUP = KindGroup(_detect, _judge)
