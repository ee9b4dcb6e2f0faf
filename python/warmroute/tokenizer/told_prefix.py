"""How much of a rendered conversation is sure where it holds images, audio or video.

What stands for an image differs from model to model, in its text and in its number of tokens, and a template may put it
elsewhere than the client did. What is sure is found by rendering the conversation twice: as the engine does, and with a
mark in place of the first image. Where both texts are the same up to the mark, that much is text before any image.
"""

import re
from collections.abc import Callable, Iterable

# Neither trimmed, split nor escaped by a template, and in nobody's prompt.
MARK = "HERE-BEGINS-WHAT-IS-NOT-TEXT"

_TOKEN = re.compile(r"<[^<>\s]+>|\[[A-Z_]+\]")


def told_prefix(actual: str, marked: Iterable[Callable[[], str]]) -> str:
    """The part of `actual`, a conversation as the engine renders it, that is certainly before its first image.

    `marked` renders the same conversation with marks, the most telling first; a later one is tried where an earlier one
    shows that the template does not write the parts in their order. Empty where none is any use.
    """
    for render in marked:
        pieces = render().split(MARK)
        if len(pieces) > 1 and actual.startswith(pieces[0]):
            return _before_doubles(pieces[0], _stand_in(actual, pieces))
    return ""


def _stand_in(actual: str, pieces: list[str]) -> str:
    """What the template writes for the first images: the text that stands in `actual` where `pieces` had a mark."""
    begin = len(pieces[0])
    follows = next((piece for piece in pieces[1:] if piece), "")
    end = actual.find(follows, begin) if follows else len(actual)
    return actual[begin:end]


def _before_doubles(told: str, stand_in: str) -> str:
    """Where the client itself wrote what stands for an image, an engine takes that for the place of one."""
    places = [told.find(token) for token in _TOKEN.findall(stand_in)]
    return told[: min((place for place in places if place >= 0), default=len(told))]
