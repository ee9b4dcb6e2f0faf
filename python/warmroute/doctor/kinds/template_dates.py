"""Today's date, written by the chat template itself: in a prompt that was rendered before it was sent."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds.dates import DATE_TIME, WRITTEN_BY_TEMPLATES
from warmroute.doctor.leaves import Path, Turn, Zone, replaced, value_at
from warmroute.doctor.prompt_blocks import TEMPLATE_OPTIONS
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.doctor.units import common_prefix
from warmroute.openai_api import JsonObject

_MARKS = re.compile(r"<\|[\w ]{2,32}\|>|\[INST\]|<start_of_turn>|<<SYS>>|<｜|<s>|\[SYSTEM_PROMPT\]")
# The head of a prompt, in which templates write the date.
_HEAD = 1_000


@dataclass(frozen=True, slots=True)
class PinnedDate:
    """The date in a rendered prompt, or the one that the template is handed, is the same in all requests."""

    path: Path
    date: str

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with it."""
        text = value_at(body, self.path)
        if not isinstance(text, str):
            return dict(body)
        span = (0, len(text)) if self.path[0] == TEMPLATE_OPTIONS else date_span(text)
        if span is None:
            return dict(body)
        return replaced(body, self.path, text[: span[0]] + self.date + text[span[1] :])  # type: ignore[no-any-return]


def date_span(text: str) -> tuple[int, int] | None:
    """Where a template has written today's date; None where no template that is known has."""
    head = text[:_HEAD]
    if _MARKS.search(head) is None:
        return None
    for words in WRITTEN_BY_TEMPLATES.finditer(head):
        date = DATE_TIME.search(head, words.end())
        if (
            date is not None
            and date.start() - words.end() <= 4
            and not words.group().lower().endswith(("cutoff", "knowledge"))
        ):
            return date.span()
    return None


def _detect(pair: Pair) -> Sequence[Clue]:
    if pair.parted is not None and pair.parted[0].zone in (Zone.PROMPT, Zone.SYSTEM):
        path = tuple(step for step in pair.parted[0].path if not isinstance(step, Turn))
        left, right = (str(value_at(side.body, path)) for side in (pair.left, pair.right))
        spans = date_span(left), date_span(right)
        at = common_prefix(left, right)
        if spans[0] and spans[1] and spans[0][0] <= at <= spans[0][1]:
            return [Clue(Kind.TEMPLATE_DATE, path, at, left[slice(*spans[0])], right[slice(*spans[1])])]
    return _options(pair)


def _options(pair: Pair) -> Sequence[Clue]:
    """What the client hands to the template; it is not in the texts, so it counts where they go on alike."""
    left, right = pair.left.body.get(TEMPLATE_OPTIONS), pair.right.body.get(TEMPLATE_OPTIONS)
    if not isinstance(left, dict) or not isinstance(right, dict):
        return []
    for name in left:
        a, b = left[name], right.get(name)
        if isinstance(a, str) and isinstance(b, str) and a != b and DATE_TIME.search(a) and DATE_TIME.search(b):
            return [Clue(Kind.TEMPLATE_DATE, (TEMPLATE_OPTIONS, name), common_prefix(a, b), a, b)]
    return []


def _judge(suspect: Suspect, _: Sequence[Case]) -> Verdict | None:
    clue = suspect.clues[0][1]
    where = "pin it with `chat_template_kwargs`, or write the date into the last user message"
    return Verdict(suspect.kind, PinnedDate(suspect.path, clue.left), f"the chat template writes today's date: {where}")


GROUP = KindGroup(_detect, _judge)
