"""Texts in units: lines, and the sentences in them. What is another one in each request is moved a unit at a time."""

import re

# A full stop behind a number ends no sentence: "3. März". Chinese, Japanese, Hindi and Arabic have marks of their own.
_END = re.compile(r"(?<=[^\W\d_][.!?])[ \t]+(?=\S)|(?<=[)\"'”»][.!?])[ \t]+(?=\S)|(?<=[。！？।؟])(?=.)|\n+")


def units(text: str) -> list[str]:
    """The units of a text, each with what follows it up to the next; joined they are the text."""
    found, start = [], 0
    for end in _END.finditer(text):
        if end.end() > start:
            found.append(text[start : end.end()])
            start = end.end()
    if start < len(text):
        found.append(text[start:])
    return found


def key(unit: str) -> str:
    """What makes two units the same, wherever they stand."""
    return unit.strip()


def common_prefix(a: str, b: str) -> int:
    """The length of the longest common beginning of two texts."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
