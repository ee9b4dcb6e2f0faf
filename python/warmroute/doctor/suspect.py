"""What speaks for a kind at a place: clues from pairs of requests, gathered before they are judged together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.kind import Kind
from warmroute.doctor.leaves import Path
from warmroute.doctor.report import Fix


@dataclass(frozen=True, slots=True)
class Clue:
    """What one pair of requests shows.

    path: of the field in which they part, at character `at`. left, right: what either has there. detail: what the
    kind's own judgement needs to know. gathered_by: what clues of the kind are gathered by, where they are of one thing
    at several fields.
    """

    kind: Kind
    path: Path
    at: int
    left: str
    right: str
    detail: Any = None
    gathered_by: Path | None = None

    @property
    def place(self) -> Path:
        """What clues are gathered by."""
        return self.path if self.gathered_by is None else self.gathered_by


@dataclass(slots=True)
class Suspect:
    """All clues for one kind at one place. weight: tokens that the requests of these pairs have computed anew."""

    kind: Kind
    path: Path
    clues: list[tuple[Pair, Clue]] = field(default_factory=list)
    weight: float = 0.0

    @property
    def first(self) -> tuple[Pair, Clue]:
        """The clue that stands first in the prompt."""
        return min(self.clues, key=lambda each: [step if isinstance(step, int) else -1 for step in each[1].path])

    @property
    def shows_same_conversation(self) -> bool:
        """Whether the place differs between turns of one conversation."""
        return any(pair.same_conversation for pair, _ in self.clues)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A suspect that convinces.

    advice: what to do, as the beginning of a sentence. least_better, least_gain: part of the requests that the fix must
    help, and of their tokens that it must save, beyond what is asked of all.
    """

    kind: Kind
    fix: Fix
    advice: str
    least_better: float = 0.0
    least_gain: float = 0.0


@dataclass(frozen=True, slots=True)
class KindGroup:
    """Kinds that are found and mended alike.

    detect: the clues of a pair; empty where it shows none of these kinds. judge: what a suspect comes to by all
    requests of the family; None where it does not convince.
    """

    detect: Callable[[Pair], Sequence[Clue]]
    judge: Callable[[Suspect, Sequence[Case]], Verdict | None]
