"""A request under examination, and two of them side by side."""

import json
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from warmroute.doctor.chunks import weighed
from warmroute.doctor.leaves import Leaf, Path, Turn, Zone, leaves_of, messages_name, messages_of, prompt_path, zone_of
from warmroute.doctor.prompt_blocks import Counting, PromptBlocks
from warmroute.openai_api import Endpoint, JsonObject

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
_REASONING_PARTS = ("thinking", "redacted_thinking", "reasoning")


@dataclass(frozen=True)
class Case:
    """A request of a family. position: in the log. Its body may have been changed by fixes.

    session, user: by the envelope, or by the body itself.
    """

    position: int
    endpoint: Endpoint
    body: JsonObject
    counting: Counting = field(repr=False)
    at_s: float | None = None
    session: str | None = None
    user: str | None = None

    @cached_property
    def leaves(self) -> list[Leaf]:
        """Its texts."""
        return leaves_of(self.body, self.endpoint)

    @cached_property
    def pieces(self) -> dict[int, int]:
        """The pieces of its texts."""
        return weighed(self.leaves)

    @cached_property
    def blocks(self) -> list[PromptBlocks]:
        """Of its prompts. Raises BrokenLine."""
        return self.counting.blocks(self.body, self.endpoint)

    @cached_property
    def tokens(self) -> int:
        """Of all its prompts."""
        return sum(each.tokens for each in self.blocks)

    @cached_property
    def messages(self) -> list[Any]:
        """Those that are not the system's."""
        return [each for each in messages_of(self.body, self.endpoint) if zone_of(each) is not Zone.SYSTEM]

    @cached_property
    def first_message(self) -> int:
        """The position of the first of these."""
        everything = messages_of(self.body, self.endpoint)
        return next((at for at, each in enumerate(everything) if zone_of(each) is not Zone.SYSTEM), len(everything))

    @cached_property
    def turns(self) -> list[Hashable]:
        """Each message that is not the system's as what it says, without its reasoning."""
        return [said(each) for each in self.messages]

    def with_body(self, body: JsonObject) -> "Case":
        """The same request with another body."""
        return replace(self, body=body)


def message_path(case: Case, position: int) -> Path:
    """Where a case has the message at a position."""
    prompt = prompt_path(case.body, case.endpoint)
    return (messages_name(case.endpoint), position) if prompt is None else (*prompt, Turn(position))


def said(message: Any) -> Hashable:
    """What makes two messages the same: one text may be written as such, or as the only part of a list."""
    bare = without_reasoning(message)
    content = bare.get("content") if isinstance(bare, dict) else None
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict) and "text" in content[0]:
        bare = {**bare, "content": content[0]["text"]}
    return json.dumps(bare, sort_keys=True)


def without_reasoning(message: Any) -> Any:
    """A message without what was thought before it was said; an item that is nothing else is None."""
    if not isinstance(message, dict):
        return message
    if message.get("type") == "reasoning":
        return None
    bare = {name: value for name, value in message.items() if name not in _REASONING_FIELDS}
    content = bare.get("content")
    if isinstance(content, list):
        bare["content"] = [_without_thoughts(part) for part in content if not _is_reasoning(part)]
    elif isinstance(content, str) and message.get("role") == "assistant":
        bare["content"] = without_thoughts(content)
    return bare


def without_thoughts(text: str) -> str:
    """An answer without what stands in its marks of thinking."""
    begin, end = text.find("<think>"), text.find("</think>")
    return text if begin < 0 or end < begin else (text[:begin] + text[end + len("</think>") :]).lstrip()


def _without_thoughts(part: Any) -> Any:
    text = part.get("text") if isinstance(part, dict) else None
    return {**part, "text": without_thoughts(text)} if isinstance(text, str) and "<think>" in text else part


def _is_reasoning(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _REASONING_PARTS


@dataclass(frozen=True)
class Pair:
    """Two requests of a family that have much text in common, the earlier one on the left."""

    left: Case
    right: Case

    @cached_property
    def first(self) -> int | None:
        """The first text that differs; None where one has all texts of the other."""
        pairs = zip(self.left.leaves, self.right.leaves, strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if a.path != b.path or a.text != b.text), None)

    @cached_property
    def parted(self) -> tuple[Leaf, Leaf] | None:
        """These texts."""
        return None if self.first is None else (self.left.leaves[self.first], self.right.leaves[self.first])

    @cached_property
    def same_conversation(self) -> bool:
        """Whether they are turns of one conversation."""
        left, right = self.left, self.right
        if left.session is not None and right.session is not None:
            return left.session == right.session
        few = min(len(left.turns), len(right.turns))
        return few > 0 and left.turns != right.turns and left.turns[:few] == right.turns[:few]
