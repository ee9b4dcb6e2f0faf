"""Prompts in one text that are written as a conversation, as chat templates and people write them, in their turns."""

import re
from dataclasses import dataclass
from functools import lru_cache

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "instruction": "user",
    "input": "user",
    "question": "user",
    "q": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "response": "assistant",
    "answer": "assistant",
    "a": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "ipython": "tool",
}
_NAME = r"(system|developer|user|human|instruction|input|assistant|ai|model|response|tool|function|observation|ipython)"
_MARKERS = (
    rf"<\|im_start\|>{_NAME}\n",
    rf"<\|start_header_id\|>{_NAME}<\|end_header_id\|>\n*",
    rf"<start_of_turn>{_NAME}\n",
    rf"<\|start\|>{_NAME}[^<\n]{{0,40}}<\|message\|>",
    rf"<\|{_NAME}\|>\n?",
    rf"(?:^|\n)#{{2,4}} ?{_NAME}:?[ \t]*\n",
    rf"(?:^|\n){_NAME}:[ \t]*\n?",
    r"(?:^|\n)(question|answer|q|a):[ \t]*\n?",
)
_PATTERNS = tuple(re.compile(marker, re.IGNORECASE) for marker in _MARKERS)
# Two turns of two roles make a conversation; one word with a colon does not.
_FEWEST_TURNS = 2


@dataclass(frozen=True, slots=True)
class TextTurn:
    """One turn. marker: what stands in front of its text and tells its role."""

    marker: str
    role: str
    text: str


@lru_cache(maxsize=256)
def transcript(prompt: str) -> tuple[TextTurn, ...] | None:
    """The turns of a prompt, together all of it; None where it is no conversation. What is in front is the system's."""
    for pattern in _PATTERNS:
        found = list(pattern.finditer(prompt))
        if len(found) < _FEWEST_TURNS or len({match[1].lower() for match in found}) < _FEWEST_TURNS:
            continue
        ends = [match.start() for match in found[1:]] + [len(prompt)]
        turns = [
            TextTurn(match.group(), _ROLES[match[1].lower()], prompt[match.end() : end])
            for match, end in zip(found, ends, strict=True)
        ]
        head = prompt[: found[0].start()]
        return tuple([TextTurn("", "system", head), *turns] if head else turns)
    return None


def written(turns: tuple[TextTurn, ...] | list[TextTurn]) -> str:
    """The prompt of these turns."""
    return "".join(turn.marker + turn.text for turn in turns)
