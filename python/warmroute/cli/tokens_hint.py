"""What the first difference between two prompts looks like: a date, an id, a counter, another order."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|"
    r"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY_OF_MONTH = r"\d{1,2}(?:st|nd|rd|th)?\.?"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
_ISO_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}"
# The most telling first. A word with digits and letters is an identifier only when it is long.
_PATTERNS = {
    "uuid": re.compile(r"[0-9A-Fa-f]{8}-?(?:[0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}"),
    "date and time": re.compile(rf"{_ISO_DATE}[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"),
    "date": re.compile(
        rf"{_ISO_DATE}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
        rf"|(?:{_DAY},? )?(?:{_DAY_OF_MONTH} {_MONTH}|{_MONTH}\.? {_DAY_OF_MONTH})(?:,? \d{{4}})?\b"
        rf"|{_MONTH} \d{{4}}\b|\b{_DAY}\b"
    ),
    "time": re.compile(_CLOCK),
    "identifier": re.compile(r"[A-Za-z0-9_-]*(?:\d[A-Za-z_-]*[A-Za-z]|[A-Za-z][A-Za-z_-]*\d)[A-Za-z0-9_-]*"),
    "number": re.compile(r"\d+(?:[.,]\d+)*"),
}
_SHORTEST_IDENTIFIER = 8
# Seconds since 1970, or a smaller unit of them.
_SHORTEST_TIMESTAMP = 10
_COUNTER_STEP = 1000
_WINDOW = 100
_COMPARED = 40
_MOVE = "put it behind everything that stays the same, or leave it out"
_ADVICE = {
    "uuid": f"an id of one request, or of one session, ends what all others could share; {_MOVE}",
    "date and time": f"it is another one in every request; {_MOVE}, or write the date alone",
    "date": f"every prompt is a new one each day; {_MOVE}",
    "time": f"it is another one in every request; {_MOVE}",
    "timestamp": f"it is another one in every request; {_MOVE}",
    "identifier": f"an id of one request, or of one session, ends what all others could share; {_MOVE}",
    "counter": f"it goes up from request to request; {_MOVE}",
    "number": _MOVE,
    "white-space": "the texts are the same but for spaces and line ends; write them the same way each time",
    "unicode-form": "the same characters, once composed and once not; normalise them (NFC) before they are sent",
    "tool-order": "the same tools in another order; sort them",
    "key-order": "the same JSON with its keys in another order; write them in a fixed one",
    "left-out": "messages were taken out before the end; a conversation is cached from its beginning",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """What the difference looks like: one stable word, what stands in either prompt, and what to do about it."""

    kind: str
    a: str
    b: str

    @property
    def advice(self) -> str:
        """What it means for the cache, and what can be done."""
        return _ADVICE[self.kind]


def hint_from_text(a: str, b: str, at: int) -> Hint | None:
    """From two texts that are the same up to character `at` and go on differently."""
    if _same(a, b, at, lambda text: "".join(text.split())):
        return Hint("white-space", a[at : at + _COMPARED], b[at : at + _COMPARED])
    # A mark belongs to the letter before it.
    if _same(a, b, max(0, at - 1), lambda text: unicodedata.normalize("NFC", text)):
        return Hint("unicode-form", a[at : at + _COMPARED], b[at : at + _COMPARED])
    for kind, pattern in _PATTERNS.items():
        found = _both(pattern, a, b, at)
        if found is not None and (kind != "identifier" or min(map(len, found)) >= _SHORTEST_IDENTIFIER):
            return Hint(_number(*found) if kind == "number" else kind, *found)
    return None


def hint_from_bodies(a: Any, b: Any, in_tools: bool, message: int | None) -> Hint | None:
    """From two bodies, whose prompts part within their tools or at a message; what is `a` and `b` then is counts."""
    if not isinstance(a, dict) or not isinstance(b, dict):
        return None
    if in_tools and (order := _order(a.get("tools"), b.get("tools"))) is not None:
        return order
    before, after = a.get("messages"), b.get("messages")
    if message is None or not isinstance(before, list) or not isinstance(after, list):
        return None
    for longer, shorter in ((before, after), (after, before)):
        if any(_left_out(longer, shorter, message)):
            return Hint("left-out", f"{len(before)} messages", f"{len(after)} messages")
    return None


def _same(a: str, b: str, at: int, fold: Callable[[str], str]) -> bool:
    """Whether the texts go on the same way once they are folded; where they end soon, to their ends."""
    ahead_a, ahead_b = fold(a[at : at + 2 * _COMPARED]), fold(b[at : at + 2 * _COMPARED])
    length = min(len(ahead_a), len(ahead_b), _COMPARED)
    if length < _COMPARED:
        return length > 0 and ahead_a == ahead_b
    return ahead_a[:length] == ahead_b[:length]


def _both(pattern: "re.Pattern[str]", a: str, b: str, at: int) -> tuple[str, str] | None:
    """What the pattern finds in both texts from the same place on, over the difference."""
    starts = {found.start(): found.group() for found in _over(pattern, b, at)}
    for found in _over(pattern, a, at):
        other = starts.get(found.start())
        if other is not None and other != found.group():
            return found.group(), other
    return None


def _over(pattern: "re.Pattern[str]", text: str, at: int) -> Iterator["re.Match[str]"]:
    start = max(0, at - _WINDOW)
    found = pattern.finditer(text, start, at + _WINDOW)
    return (match for match in found if match.start() <= at <= match.end())


def _number(a: str, b: str) -> str:
    if a.isdigit() and b.isdigit():
        if min(len(a), len(b)) >= _SHORTEST_TIMESTAMP:
            return "timestamp"
        if abs(int(a) - int(b)) <= _COUNTER_STEP:
            return "counter"
    return "number"


def _order(a: Any, b: Any) -> Hint | None:
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
        return None
    counts = f"{len(a)} tools", f"{len(b)} tools"
    if a == b:
        return Hint("key-order", *counts) if json.dumps(a) != json.dumps(b) else None
    return Hint("tool-order", *counts) if all(tool in b for tool in a) else None


def _left_out(longer: list[Any], shorter: list[Any], at: int) -> Iterator[bool]:
    """Whether what `shorter` has at a place comes in `longer` only later."""
    if at < len(shorter):
        yield from (message == shorter[at] for message in longer[at + 1 :])
