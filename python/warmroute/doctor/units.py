"""Texts in units: lines, and the sentences in them. What is another one in each request is moved a unit at a time."""

import re

# Where a unit may end; a full stop behind a number ends no sentence: "3. März". Chinese, Japanese, Hindi and Arabic
# have marks of their own.
_CLOSING = ")\"'”»"
_END = re.compile(r"[.!?][ \t]+|[。！？।؟]\s*|\n+")


def units(text: str) -> list[str]:
    """The units of a text, each with what follows it up to the next; joined they are the text."""
    found, start = [], 0
    for end in _END.finditer(text):
        if _ends(text, end):
            found.append(text[start : end.end()])
            start = end.end()
    if start < len(text):
        found.append(text[start:])
    return found


def _ends(text: str, mark: "re.Match[str]") -> bool:
    begin = mark.start()
    if text[begin] not in ".!?":
        return True
    before = text[begin - 1] if begin else " "
    return before.isalpha() or before in _CLOSING


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
