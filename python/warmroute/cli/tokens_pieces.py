"""Which part of a text each of its tokens covers."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from warmroute.cli.tokens_vocabulary import Vocabulary

_CONTINUATION = bytes(range(0x80, 0xC0))
# How far a token is looked for where the text was changed before it was encoded.
_WINDOW = 256
_SPACES = re.compile(rb"\s*")


@dataclass(frozen=True, slots=True)
class Piece:
    """One token and its part of the text.

    data: that part in UTF-8; not a whole number of characters where a character takes several tokens, empty for a token
    that the tokenizer added. start, end: characters of the text; a character of several tokens lies in each of them.
    """

    id: int
    name: str
    data: bytes
    start: int
    end: int
    added: bool
    special: bool

    @property
    def text(self) -> str | None:
        """The part of the text, None where it is not whole characters."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of a text in their order.

    aligned: False where the tokenizer changes the text so much that some places are guessed; ids are right anyway.
    """

    text: str
    pieces: Sequence[Piece]
    aligned: bool = True

    def offset(self, index: int) -> int:
        """Where token `index` begins, in characters; the end of the text for one that is not there."""
        return self.pieces[index].start if index < len(self.pieces) else len(self.text)


def pieces_of_text(text: str, ids: Sequence[int], vocabulary: Vocabulary) -> Pieces:
    """The pieces of `text`, which became `ids`, or whose beginning did."""
    data = text.encode("utf-8", "replace")
    best: _Walk | None = None
    for fold in (None, *_FOLDS):
        folded = _Folded(data, range(len(data) + 1)) if fold is None else _folded(text, fold)
        walk = _Walk(folded.data, vocabulary)
        for token in ids:
            walk.step(token)
        walk.end = [folded.origin[place] for place in walk.end]
        if best is None or walk.missed < best.missed:
            best = walk
        if not best.missed:
            break
    assert best is not None
    ends = best.end
    spans = list(zip([0, *ends], ends, strict=False))
    return Pieces(text, _cut(data, ids, spans, vocabulary), not best.missed)


def pieces_of_ids(ids: Sequence[int], vocabulary: Vocabulary) -> Pieces:
    """The pieces of a prompt that came as ids; its text is what they stand for, U+FFFD where that is no text."""
    parts = [vocabulary.bytes_of(token) for token in ids]
    spans, place = [], 0
    for part in parts:
        spans.append((place, place + len(part)))
        place += len(part)
    data = b"".join(parts)
    return Pieces(data.decode("utf-8", "replace"), _cut(data, ids, spans, vocabulary))


def _cut(data: bytes, ids: Sequence[int], spans: Sequence[tuple[int, int]], vocabulary: Vocabulary) -> list[Piece]:
    cut, characters, done = [], 0, 0
    for token, (start, end) in zip(ids, spans, strict=True):
        characters += _characters(data[done:start])
        within = start < len(data) and 0x80 <= data[start] < 0xC0
        begins = characters - within if end > start else characters
        characters += _characters(data[start:end])
        done = end
        added = vocabulary.added.get(token)
        special = added is not None and added.special
        name = vocabulary.name(token)
        cut.append(Piece(token, name, data[start:end], begins, characters, added is not None, special))
    return cut


def _characters(data: bytes) -> int:
    """How many characters begin in `data`."""
    return len(data.translate(None, _CONTINUATION))


@dataclass(slots=True)
class _Walk:
    """Goes through a text token by token; `end` has the place after each, `missed` how many were not found."""

    data: bytes
    vocabulary: Vocabulary
    end: list[int] = field(default_factory=list)
    missed: int = 0

    def step(self, token: int) -> None:
        """Place the next token."""
        place = self.end[-1] if self.end else 0
        part = self.vocabulary.bytes_of(token)
        begin, width = self._found(part, place, token)
        added = self.vocabulary.added.get(token)
        if begin > place and self.end and not (added and added.lstrip):
            self.end[-1] = begin
        end = begin + width
        self.end.append(self._after_space(end) if added and added.rstrip else end)

    def _after_space(self, place: int) -> int:
        found = _SPACES.match(self.data, place)
        return place if found is None else found.end()

    def _found(self, part: bytes, place: int, token: int) -> tuple[int, int]:
        """Where the part begins, at or after `place`, and how many bytes of the text it covers."""
        for begin in (place, self._after_space(place)):
            if self.data.startswith(part, begin):
                return begin, len(part)
            # A space that the tokenizer itself puts before a text.
            if part.startswith(b" ") and self.data.startswith(part[1:], begin):
                return begin, len(part) - 1
        if token in self.vocabulary.added:
            return place, 0  # put there by the tokenizer, as a beginning of text is
        begin = self.data.find(part, place, place + _WINDOW)
        self.missed += 1
        return (place, 0) if begin < 0 else (begin, len(part))


@dataclass(frozen=True, slots=True)
class _Folded:
    """A text as a normalizer may have left it; `origin` has the place in the text of each of its bytes, and its end."""

    data: bytes
    origin: Sequence[int]


def _folded(text: str, fold: Callable[[str], str]) -> _Folded:
    parts: list[bytes] = []
    origin: list[int] = []
    place = 0
    for cluster in _clusters(text):
        given, part = cluster.encode("utf-8", "replace"), fold(cluster).encode("utf-8", "replace")
        # The bytes of a cluster that was changed cannot be told apart: all begin where it does.
        origin.extend(range(place, place + len(given)) if part == given else [place] * len(part))
        parts.append(part)
        place += len(given)
    return _Folded(b"".join(parts), [*origin, place])


def _clusters(text: str) -> list[str]:
    """Characters with the marks that follow them: no normal form reaches further, but for syllables in Hangul."""
    clusters: list[str] = []
    for character in text:
        if clusters and (unicodedata.combining(character) or 0x1160 <= ord(character) < 0x1200):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _uncased(text: str) -> str:
    bare = unicodedata.normalize("NFD", text.lower())
    return "".join(character for character in bare if not unicodedata.combining(character))


_FOLDS = (_nfc, lambda text: unicodedata.normalize("NFKC", text), _uncased)
