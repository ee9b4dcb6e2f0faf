"""Text as a person sees it: each character once, nothing that a terminal would act on.

Two ways. Coloured, with marks for white space, whose style tells them from the same characters in the text. Plain, in
quotes, as JSON writes strings; bytes that are no whole character are `\\xe4` in both.
"""

import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from warmroute.cli.tokens_pieces import Piece

_MARKS = {" ": "\u00b7", "\n": "\u23ce", "\t": "\u2192"}
# Controls, formats such as the marks that turn the direction, halves of pairs, private, unassigned, separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_MARK_STYLE = "dim cyan"
_ESCAPE_STYLE = "red"
_SPECIAL_STYLE = "bold magenta"
_ADDED_STYLE = "magenta"
# Neighbours are told apart by their ground.
_GROUNDS = ("on grey11", "on grey23")
_WIDTH_OF_A_FILE = 240


def console() -> Console:
    """Standard output. No markup: a prompt may hold what looks like it."""
    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    return Console(width=width, markup=False, highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())


def is_coloured(output: Console) -> bool:
    """Whether there is a terminal that shows colours, and nobody has asked for none (NO_COLOR)."""
    return output.color_system is not None and not output.no_color


def coloured(piece: Piece, index: int = 0, style: str = "", breaks: bool = True) -> Text:
    """A token's part of the text; `breaks`: a line ends where the text has a line end."""
    kind = _SPECIAL_STYLE if piece.special else _ADDED_STYLE if piece.added else ""
    base = f"{kind} {style or _GROUNDS[index % 2]}".strip()
    shown = Text(style=base)
    if not piece.data:
        return shown.append(f"\u2039{readable(piece.name)}\u203a", style="italic")
    for character, seen in _seen(piece.data):
        if character in _MARKS:
            shown.append(_MARKS[character], style=_MARK_STYLE)
            if character == "\n" and breaks:
                shown.append("\n")
        else:
            shown.append(seen, style="" if seen == character else _ESCAPE_STYLE)
    return shown


def quoted(data: bytes) -> str:
    """Bytes of a text in quotes."""
    return '"' + "".join(_escaped(character, seen) for character, seen in _seen(data)) + '"'


def readable(text: str) -> str:
    """A text without quotes and without anything that a terminal would act on."""
    return "".join(
        character if character == " " else seen for character, seen in _seen(text.encode("utf-8", "replace"))
    )


def line_of_pieces(pieces: Sequence[Piece], marked: int | None, in_colour: bool) -> Text:
    """Tokens side by side; that at `marked` stands out, the borders between the others are to be seen."""
    if not in_colour:
        words = [quoted(piece.data) if piece.data else f"<{readable(piece.name)}>" for piece in pieces]
        if marked is not None and marked < len(words):
            words[marked] = f">>>{words[marked]}<<<"
        return Text(" ".join(words))
    line = Text()
    for index, piece in enumerate(pieces):
        line.append_text(coloured(piece, index, "reverse" if index == marked else "", breaks=False))
    return line


def counted(number: int, noun: str) -> str:
    """`1 block`, `2,000 blocks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _escaped(character: str, seen: str) -> str:
    return json.dumps(character)[1:-1] if character and character in '"\\\n\t\r' else seen


def _seen(data: bytes) -> Iterator[tuple[str, str]]:
    """Each character with what is shown for it; a byte of no whole character has none of its own."""
    place = 0
    while place < len(data):
        try:
            text, place = data[place:].decode(), len(data)
            yield from ((character, _shown(character)) for character in text)
        except UnicodeDecodeError as error:
            text = data[place : place + error.start].decode()
            yield from ((character, _shown(character)) for character in text)
            broken = data[place + error.start : place + error.end]
            yield from (("", f"\\x{byte:02x}") for byte in broken)
            place += error.end


def _shown(character: str) -> str:
    if character == " " or unicodedata.category(character) not in _UNSEEN:
        return character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
