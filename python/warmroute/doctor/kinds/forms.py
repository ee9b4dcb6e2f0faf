"""The same text in another form: the order of JSON's keys, white space, line ends, how characters are composed."""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds.orders import canonical
from warmroute.doctor.leaves import Path, Zone, leaves_of, replaced, value_at
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.doctor.units import common_prefix
from warmroute.openai_api import Endpoint, JsonObject

# Characters that texts must have in common behind the place, once they are in one form; fewer where they end.
_COMPARED = 48
_LOOKED_AT = 4_000
_SPACES = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n{2,}")
_SHORTEST_JSON = 8
_IN_FRONT = (Zone.TOOLS, Zone.DOCUMENTS, Zone.SYSTEM)
# What means the same in every text, code and verse too.
_HARMLESS = (Kind.LINE_ENDINGS, Kind.UNICODE_FORM)
# Of a message only calls of tools, and what goes into them, are written as JSON.
_WRITTEN_AS_JSON = frozenset({"tool_calls", "input", "arguments"})


def _without_returns(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n")


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _without_spaces(text: str) -> str:
    return _SPACES.sub("", text)


def one_white_space(text: str) -> str:
    """A text with one space between words, one empty line between paragraphs, and neither around it."""
    lines = [_SPACES.sub(" ", line).strip() for line in text.splitlines()]
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def json_in_one_form(text: str) -> str:
    """A text in which every JSON object is written with its keys in order and one kind of white space."""
    decoder, found, start = json.JSONDecoder(), list[str](), 0
    while (begin := text.find("{", start)) >= 0:
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            found.append(text[start : begin + 1])
            start = begin + 1
            continue
        found += [text[start:begin], json.dumps(value, sort_keys=True, ensure_ascii=False)]
        start = end
    return "".join([*found, text[start:]])


_FORMS: dict[Kind, Callable[[str], str]] = {
    Kind.LINE_ENDINGS: _without_returns,
    Kind.UNICODE_FORM: _composed,
    Kind.WHITE_SPACE: one_white_space,
    Kind.KEY_ORDER: json_in_one_form,
}
_ADVICE = {
    Kind.LINE_ENDINGS: "write line ends one way (LF) before the text is sent",
    Kind.UNICODE_FORM: "bring the text into one Unicode form (NFC) before it is sent",
    Kind.WHITE_SPACE: "write the white space the same way each time",
    Kind.KEY_ORDER: "write JSON with its keys in one order (json.dumps(..., sort_keys=True))",
}


@dataclass(frozen=True, slots=True)
class OneForm:
    """Texts of a prompt in one form of a kind: that at the path, and those in front of what is said."""

    kind: Kind
    endpoint: Endpoint
    path: Path

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with them."""
        form = _FORMS[self.kind]
        changed: Any = dict(body)
        for leaf in leaves_of(body, self.endpoint):
            if leaf.zone not in _IN_FRONT and leaf.path != self.path and self.kind not in _HARMLESS:
                continue
            text = form(leaf.text)
            if text != leaf.text:
                changed = replaced(changed, leaf.path, text)
        return changed  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """The objects below a field with their keys in order, and so the JSON in texts."""

    path: Path
    endpoint: Endpoint
    text: Path

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with them."""
        value = value_at(body, self.path)
        if self.path and isinstance(value, dict | list):
            body = replaced(body, self.path, sorted_keys(value))
        return OneForm(Kind.KEY_ORDER, self.endpoint, self.text).apply(body)


def sorted_keys(value: Any) -> Any:
    """A JSON value with the keys of all its objects in order."""
    if isinstance(value, dict):
        return {name: sorted_keys(value[name]) for name in sorted(value)}
    return [sorted_keys(each) for each in value] if isinstance(value, list) else value


def _detect(pair: Pair) -> Sequence[Clue]:
    drifted = _drifted(pair)
    if drifted:
        return drifted
    if pair.parted is None or pair.parted[0].path != pair.parted[1].path:
        return []
    left, right = pair.parted
    at = common_prefix(left.text, right.text)
    for kind, form in ((Kind.LINE_ENDINGS, _without_returns), (Kind.UNICODE_FORM, _composed)):
        start = max(0, at - 2)
        if _alike(form(left.text[start : at + _LOOKED_AT]), form(right.text[start : at + _LOOKED_AT])):
            return [_clue(kind, left.path, at, left.text, right.text)]
    return _json_or_spaces(left.path, at, left.text, right.text)


def _clue(kind: Kind, path: Path, at: int, left: str, right: str, detail: Any = None) -> Clue:
    return Clue(kind, path, at, left[at : at + _COMPARED], right[at : at + _COMPARED], detail)


def _alike(left: str, right: str) -> bool:
    common = common_prefix(left, right)
    return common >= min(_COMPARED, len(left), len(right)) and common > 0


def _json_or_spaces(path: Path, at: int, left: str, right: str) -> Sequence[Clue]:
    values = _json_around(left, at), _json_around(right, at)
    if values[0] is not None and values[1] is not None and canonical(values[0]) == canonical(values[1]):
        same_keys = json.dumps(values[0]) == json.dumps(values[1])
        return [_clue(Kind.WHITE_SPACE if same_keys else Kind.KEY_ORDER, path, at, left, right)]
    if not (left[at : at + 1].isspace() or right[at : at + 1].isspace()):
        return []
    if _alike(_without_spaces(left[at : at + _LOOKED_AT]), _without_spaces(right[at : at + _LOOKED_AT])):
        return [_clue(Kind.WHITE_SPACE, path, at, left, right)]
    return []


def _json_around(text: str, at: int) -> Any:
    """The outermost JSON object or array that covers a place; None where there is none."""
    decoder = json.JSONDecoder()
    starts = [found.start() for found in re.finditer(r"[{\[]", text[: at + 1])]
    for start in starts[-64:]:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if end > at and end - start >= _SHORTEST_JSON:
            return value
    return None


def _drifted(pair: Pair) -> Sequence[Clue]:
    """Objects of the bodies that are equal but for the order of their keys; the prompt is written in their order."""
    for name in ("tools", "documents", "messages", "input"):
        left, right = pair.left.body.get(name), pair.right.body.get(name)
        if not isinstance(left, list) or not isinstance(right, list):
            continue
        for position, (a, b) in enumerate(zip(left, right, strict=False)):
            path = _drift(a, b, (name, position))
            if path is None:
                continue
            if name in ("tools", "documents") or not _WRITTEN_AS_JSON.isdisjoint(path[2:]):
                shown = [", ".join(value_at(side.body, path)) for side in (pair.left, pair.right)]
                return [Clue(Kind.KEY_ORDER, path, common_prefix(*shown), shown[0], shown[1], "keys")]
    return []


def _drift(left: Any, right: Any, path: Path) -> Path | None:
    """The path to the first object whose keys come in another order."""
    if isinstance(left, dict) and isinstance(right, dict):
        if list(left) != list(right) and set(left) == set(right) and canonical(left) == canonical(right):
            return path
        shared = [name for name in left if name in right]
        return next((found for name in shared if (found := _drift(left[name], right[name], (*path, name)))), None)
    if isinstance(left, list) and isinstance(right, list):
        pairs = enumerate(zip(left, right, strict=False))
        return next((found for at, (a, b) in pairs if (found := _drift(a, b, (*path, at)))), None)
    return None


def _judge(suspect: Suspect, cases: Sequence[Case]) -> Verdict | None:
    endpoint = cases[0].endpoint
    advice = _ADVICE[suspect.kind]
    if suspect.kind is Kind.WHITE_SPACE and _is_json(suspect):
        return Verdict(
            suspect.kind,
            OneForm(Kind.KEY_ORDER, endpoint, suspect.path),
            "write JSON with the same white space each time",
        )
    if suspect.kind is Kind.KEY_ORDER:
        root = suspect.path[:1] if suspect.clues[0][1].detail == "keys" else ()
        return Verdict(suspect.kind, SortedKeys(root, endpoint, suspect.path), advice)
    return Verdict(suspect.kind, OneForm(suspect.kind, endpoint, suspect.path), advice)


def _is_json(suspect: Suspect) -> bool:
    """Whether the white space is that of JSON in the text: it may stand within its strings elsewhere."""
    pair, clue = suspect.clues[0]
    texts = [value_at(side.body, suspect.path) for side in (pair.left, pair.right)]
    return all(isinstance(text, str) and _json_around(text, clue.at) is not None for text in texts)


GROUP = KindGroup(_detect, _judge)
