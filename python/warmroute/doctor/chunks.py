"""What two requests have in common, wherever it stands: hashes of the pieces that their texts fall into.

White space, line ends, the form of characters and the order of pieces do not count, so requests that differ in these
alone still share nearly all of their pieces.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from zlib import crc32

from warmroute.doctor.leaves import Leaf

# Shorter pieces are dates, ids and the words around them, or stand in any text.
_SHORTEST = 16
_SPACES = b" \t\r\x0b\x0c"
# Pieces of a request beyond this many are not looked at: half a megabyte of prose.
_MOST = 8_192
# Characters from which on a text is likely to come again as it is, and its pieces are kept.
_REPEATED = 512


def pieces(text: str) -> list[bytes]:
    """The pieces of a text: what stands between line ends, full stops and the fields of JSON, without white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    data = text.encode("utf-8", "replace").translate(None, _SPACES)
    data = data.replace(b".", b"\n").replace(b"\xe3\x80\x82", b"\n").replace(b"\xe0\xa5\xa4", b"\n")
    if b'",' in data or b"\\n" in data:
        data = data.replace(b'",', b"\n").replace(b"\\n", b"\n")
    return data.split(b"\n")


def weighed(leaves: Iterable[Leaf]) -> dict[int, int]:
    """The hash of each piece, with its bytes."""
    found: dict[int, int] = {}
    for leaf in leaves:
        if len(leaf.text) >= _REPEATED:
            found.update(_kept_pieces(leaf.text))
        elif leaf.text:
            found.update(_weighed(leaf.text))
        if len(found) > _MOST:
            break
    return found


def _weighed(text: str) -> dict[int, int]:
    return {crc32(piece): len(piece) for piece in pieces(text) if len(piece) >= _SHORTEST}


# Prompts repeat their long texts; those of some hundred applications are kept.
_kept_pieces = lru_cache(maxsize=256)(_weighed)


def shared_bytes(pieces_of: dict[int, int], other: dict[int, int]) -> int:
    """The bytes of the pieces that both have."""
    return sum(map(pieces_of.__getitem__, pieces_of.keys() & other.keys()))
