"""Texts that are another one in each request, in front of text that is the same: times, ids, counters, users' data."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.ending import with_text_at_end
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds.dates import DATE_TIME, EPOCH
from warmroute.doctor.kinds.identifiers import HEX_ID, NUMBER, PERSONAL, TRACE_ID, ULID, UUID
from warmroute.doctor.kinds.labels import OWNER, TELEPHONE
from warmroute.doctor.leaves import Path, Zone, field_name, replaced, value_at
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.doctor.units import common_prefix, key, units
from warmroute.openai_api import Endpoint, JsonObject

# The most telling first: a signed address holds dates and hexadecimal digits, and a UUID is one, too.
PATTERNS: dict[Kind, "re.Pattern[str]"] = {
    Kind.TRACE_ID: TRACE_ID,
    Kind.UUID: UUID,
    Kind.ULID: ULID,
    Kind.EPOCH: EPOCH,
    Kind.DATE_TIME: DATE_TIME,
    Kind.HEX_ID: HEX_ID,
    Kind.USER_DATA: PERSONAL,
    Kind.COUNTER: NUMBER,
}
_MASK = re.compile("\0+")
# Of the requests that have the field: a unit in more of them is shared text.
_STABLE = 0.75
_FEWEST_VALUES, _FEWEST_UNNAMED = 3, 5
_RISING = 0.7
# Of the requests that must have a label in common.
_LABELLED = 0.8
# Where nothing tells what the text is: of the requests those that the fix must help, of the tokens those it must save.
_LEAST_BETTER, _LEAST_GAIN = 0.5, 0.05
# Characters of shared text that must follow in a field: what differs at the end is what is asked.
_SHORTEST_SHARED = 64
_LEAST_SHARED = 0.25  # of the field
_MOST_UNITS = 4_000
_MOST_FRAMES = 4
_OUTLINED = 40


@dataclass(frozen=True, slots=True)
class MovedUnits:
    """The lines or sentences of a field that are another one in each request, behind all that is shared.

    in_front: whether other texts of the prompt follow in any case; else some of the field that is shared has to.
    pattern: only those in which this is found; None for all of them.
    """

    path: Path
    endpoint: Endpoint
    stable: frozenset[str] = field(repr=False)
    in_front: bool
    pattern: "re.Pattern[str] | None" = None
    # What stood before and behind the moved units of earlier texts: nearly always the same.
    _frames: list[tuple[str, str]] = field(default_factory=list, repr=False, compare=False)

    def moved(self, body: JsonObject) -> list[str]:
        """These units of a body."""
        return self._split(body)[1]

    def without(self, body: JsonObject) -> JsonObject:
        """The body without them."""
        kept, moved = self._split(body)
        return {**replaced(body, self.path, "".join(kept))} if moved else dict(body)

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with them at its end."""
        kept, moved = self._split(body)
        if not moved:
            return dict(body)
        changed = replaced(body, self.path, "".join(kept))
        return with_text_at_end(changed, self.endpoint, "\n".join(map(str.strip, moved)))

    def _split(self, body: JsonObject) -> tuple[list[str], list[str]]:
        text = value_at(body, self.path)
        if not isinstance(text, str):
            return [], []
        return self._framed(text) or self._sorted_out(text)

    def _framed(self, text: str) -> tuple[list[str], list[str]] | None:
        """The same at once, where the text differs from an earlier one in nothing but units that are moved."""
        for begin, end in self._frames:
            if len(text) > len(begin) + len(end) and text.startswith(begin) and text.endswith(end):
                moved = self._parts(text[len(begin) : len(text) - len(end)])
                ends_well = not end or moved[-1][-1:].isspace()
                if ends_well and all(key(part) not in self.stable and self._is_meant(part, True) for part in moved):
                    return [begin, end], moved
        return None

    def _sorted_out(self, text: str) -> tuple[list[str], list[str]]:
        parts = self._parts(text)
        kept, moved = list[str](), list[str]()
        behind = sum(len(part) for part in parts if key(part) in self.stable)
        least = max(_SHORTEST_SHARED, _LEAST_SHARED * sum(map(len, parts)))
        for part in parts:
            is_stable = key(part) in self.stable
            behind -= len(part) if is_stable else 0
            (moved if not is_stable and self._is_meant(part, behind >= least) else kept).append(part)
        begin, _, end = text.partition("".join(moved)) if moved else ("", "", "")
        if moved and begin + end == "".join(kept) and len(self._frames) < _MOST_FRAMES:
            self._frames.append((begin, end))
        return kept, moved

    def _parts(self, text: str) -> list[str]:
        """The units; a line that is shared as a whole is one."""
        lines = text.split("\n")
        ended = [*(line + "\n" for line in lines[:-1]), *lines[-1:]]
        return [part for line in ended for part in ([line] if key(line) in self.stable else units(line))]

    def _is_meant(self, unit: str, text_follows: bool) -> bool:
        if not unit.strip() or not (text_follows or self.in_front):
            return False
        return self.pattern is None or self.pattern.search(unit) is not None


def _detect(pair: Pair) -> Sequence[Clue]:
    if pair.parted is None or pair.parted[0].path != pair.parted[1].path:
        return []
    left, right = pair.parted
    at = common_prefix(left.text, right.text)
    units_of = units(left.text)[:_MOST_UNITS], units(right.text)[:_MOST_UNITS]
    if not _goes_on(pair, *units_of):
        return []
    return [Clue(kind, left.path, at, *shown) for kind, shown in _kinds_of(*_parting_units(*units_of)).items()]


def _goes_on(pair: Pair, left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether text follows that both have, in this field or in a later one."""
    assert pair.first is not None
    pairs = enumerate(zip(left, right, strict=False))
    parted = next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))
    ahead = Counter(map(key, left[parted:])) & Counter(map(key, right[parted:]))
    if sum(len(unit) * many for unit, many in ahead.items()) >= _SHORTEST_SHARED:
        return True
    later = {leaf.text for leaf in pair.left.leaves[pair.first + 1 :]}
    return any(leaf.text in later and len(leaf.text) >= 16 for leaf in pair.right.leaves[pair.first + 1 :])


def _parting_units(left: Sequence[str], right: Sequence[str]) -> tuple[str, str]:
    """The first unit on either side that the other one does not have; empty where one side has none."""
    has_left, has_right = set(map(key, left)), set(map(key, right))
    a = next((unit for unit in left if key(unit) not in has_right), "")
    b = next((unit for unit in right if key(unit) not in has_left), "")
    return a, b


def _kinds_of(left: str, right: str) -> dict[Kind, tuple[str, str]]:
    """The kinds of what differs between two units, the first in the text first, with the values; OTHER for the rest."""
    first = common_prefix(left, right)
    masked = left, right
    found: list[tuple[int, Kind, tuple[str, str]]] = []
    for kind, pattern in PATTERNS.items():
        pairs = list(zip(pattern.finditer(masked[0]), pattern.finditer(masked[1]), strict=False))
        differing = [(a, b) for a, b in pairs if a.group() != b.group()]
        found += [(a.start(), kind, (a.group(), b.group())) for a, b in differing]
        masked = (
            _masked(masked[0], [a.span() for a, _ in differing]),
            _masked(masked[1], [b.span() for _, b in differing]),
        )
    rest = _MASK.sub("\0", masked[0]) != _MASK.sub("\0", masked[1])
    covered = any(start <= first < start + len(values[0]) + 1 for start, _, values in found)
    if rest and not covered:
        found.append((first, Kind.OTHER, (left[first:], right[first:])))
    kinds: dict[Kind, tuple[str, str]] = {}
    for _, kind, values in sorted(found, key=lambda each: each[0]):
        kinds.setdefault(kind, values)
    return dict(list(kinds.items())[:1]) if not rest else kinds


def _masked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + "\0" * (end - start) + text[end:]
    return text


def stable_units(cases: Sequence[Case], path: Path) -> frozenset[str]:
    """The units that nearly all requests have in a field."""
    texts = [text for case in cases if isinstance(text := value_at(case.body, path), str)]
    counts = Counter(unit for text in texts for unit in set(map(key, [*text.split("\n"), *units(text)])))
    return frozenset(unit for unit, many in counts.items() if many >= max(2, _STABLE * len(texts)))


def _judge(suspect: Suspect, cases: Sequence[Case]) -> Verdict | None:
    stable = stable_units(cases, suspect.path)
    in_front = is_in_front(suspect)
    every = MovedUnits(suspect.path, cases[0].endpoint, stable, in_front)
    kind = _resolved(suspect, cases, every)
    pattern = None if kind in (Kind.USER_DATA, Kind.SYSTEM_PROMPT, Kind.OTHER) else PATTERNS[kind]
    fix = MovedUnits(suspect.path, cases[0].endpoint, stable, in_front, pattern)
    moved = [tuple(units_) for case in cases if (units_ := fix.moved(case.body))]
    if len(set(moved)) < (_FEWEST_UNNAMED if kind is Kind.OTHER else min(_FEWEST_VALUES, len(cases))):
        return None
    what = _outlined(moved[0], suspect)
    advice = f"move `{what}` from `{field_name(suspect.path)}` to the last user message"
    if kind is Kind.OTHER:
        return Verdict(kind, fix, advice, _LEAST_BETTER, _LEAST_GAIN)
    return Verdict(kind, fix, advice)


def _outlined(moved: Sequence[str], suspect: Suspect) -> str:
    """The beginning of a unit, as far as another request has it, too, and it is not the value itself."""
    pair, clue = suspect.first
    unit, value = moved[0].strip(), clue.left.strip()
    others = [other for each in units(str(value_at(pair.right.body, suspect.path))) if (other := key(each)) != unit]
    shared = max((common_prefix(unit, other) for other in others), default=0)
    found = unit.find(value) if value else -1
    return unit[: min(shared, _OUTLINED, len(unit) if found < 0 else found)] + "..."


def _resolved(suspect: Suspect, cases: Sequence[Case], fix: MovedUnits) -> Kind:
    """What a number or an unnamed text is, by how it changes and what is written beside it."""
    kind = suspect.kind
    if kind is Kind.EPOCH and not _rises(cases, fix, EPOCH):
        kind = Kind.USER_DATA
    if kind is Kind.COUNTER and not _rises(cases, fix, NUMBER):
        kind = Kind.OTHER
    if kind is not Kind.OTHER:
        return kind
    if suspect.shows_same_conversation and _is_system(suspect):
        return Kind.SYSTEM_PROMPT
    return Kind.USER_DATA if _is_of_owner(cases, fix) else Kind.OTHER


def is_in_front(suspect: Suspect) -> bool:
    """Whether the field stands in front of all that is asked: it is one of the tools, a document or a system prompt."""
    zones = {pair.parted[0].zone for pair, _ in suspect.clues if pair.parted is not None}
    return zones <= {Zone.TOOLS, Zone.DOCUMENTS, Zone.SYSTEM}


def _is_system(suspect: Suspect) -> bool:
    return all(pair.parted is not None and pair.parted[0].zone is Zone.SYSTEM for pair, _ in suspect.clues)


def _rises(cases: Sequence[Case], fix: MovedUnits, pattern: "re.Pattern[str]") -> bool:
    """Whether the first number that changes goes up from request to request."""
    values = [value for case in cases if (value := _first_number(fix.moved(case.body), pattern)) is not None]
    steps = [after - before for before, after in pairwise(values) if after != before]
    beside = [unit for case in cases[:4] for unit in fix.moved(case.body) if pattern.search(unit)]
    is_telephone = any(TELEPHONE.search(unit) for unit in beside)
    return bool(steps) and not is_telephone and sum(step > 0 for step in steps) >= _RISING * len(steps)


def _first_number(moved: Sequence[str], pattern: "re.Pattern[str]") -> float | None:
    for unit in moved:
        for found in pattern.finditer(unit):
            return float(found.group().lstrip("#"))
    return None


def _is_of_owner(cases: Sequence[Case], fix: MovedUnits) -> bool:
    """Whether one word beside it tells of a user or a tenant, or each user of the envelope has one of their own."""
    moved = [units_ for case in cases if (units_ := tuple(fix.moved(case.body)))]
    words = Counter(word for units_ in moved for word in {found.lower() for found in OWNER.findall("".join(units_))})
    if words and max(words.values()) >= _LABELLED * len(moved):
        return True
    by_owner: dict[str, list[tuple[str, ...]]] = {}
    for case in cases:
        if case.user is not None:
            by_owner.setdefault(case.user, []).append(tuple(fix.moved(case.body)))
    returning = [values for values in by_owner.values() if len(values) > 1]
    return len(returning) > 1 and all(len(set(values)) == 1 for values in returning)


GROUP = KindGroup(_detect, _judge)
