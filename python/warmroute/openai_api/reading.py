"""What a dialect's reader hands back: the contents, and whether they are all the engine will see."""

from dataclasses import dataclass
from typing import Self

from warmroute.openai_api.prompt import Content, Untold


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of a body, and why they do not tell all of it (None: they do)."""

    contents: tuple[Content, ...]
    untold: Untold | None = None

    @classmethod
    def nothing(cls, why: Untold) -> Self:
        """No content can be told."""
        return cls((), why)
