"""Searching in texts. Forwards CPython's own search is linear, 14 ns a character at worst (measured, 3.11); backwards
(`rfind`, `rsplit`, `rpartition`) it is quadratic for needles of two characters or more, in one call that holds the
interpreter: a needle of 100 characters takes 130 ms in a text of a million, and longer ones take minutes.
"""

_MOST_COMPARISONS = 2**22
"""Characters compared in one call, 1 to 4 ms at worst."""


def steps_to_search(text: str, needle: str) -> int:
    """What looking for `needle` from the beginning costs."""
    return (len(text) + len(needle)) >> (4 if len(needle) > 1 else 8)


def is_linear_backwards(text: str, needle: str) -> bool:
    """Whether CPython can look for `needle` from the end in a few milliseconds."""
    return len(needle) < 2 or len(text) * len(needle) <= _MOST_COMPARISONS


def rfind(text: str, needle: str) -> int:
    """`text.rfind(needle)` in linear time."""
    found = text[::-1].find(needle[::-1])
    return -1 if found < 0 else len(text) - found - len(needle)


def rsplit(text: str, needle: str, most: int = -1) -> list[str]:
    """`text.rsplit(needle, most)` in linear time."""
    return [piece[::-1] for piece in reversed(text[::-1].split(needle[::-1], most))]


def rpartition(text: str, needle: str) -> tuple[str, str, str]:
    """`text.rpartition(needle)` in linear time."""
    after, found, before = text[::-1].partition(needle[::-1])
    return (before[::-1], needle, after[::-1]) if found else ("", "", text)
