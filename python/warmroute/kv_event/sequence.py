"""Following a publisher's sequence numbers: what was missed, and when a new engine process took over.

A publisher (vLLM and SGLang alike) numbers its batches from 0, one by one, for as long as its process lives. A
restarted engine starts again at 0 with an empty cache, and vLLM says so in no other way.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Next:
    """The batch that was expected."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Batches `first` to `last`, both included, were missed before this one."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Restart:
    """Another process publishes now; `missed` are its batches before this one. Nothing known of the old one holds."""

    missed: Gap | None = None


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A batch that has been seen already."""


Verdict = Next | Gap | Restart | Duplicate


class SequenceTracker:
    """Judges each batch of one publisher by its number and its `mark`: anything that tells two batches of the same
    number apart, such as a hash of the payload (None: unknown).

    The tracker moves on at every verdict, so that a gap that cannot be filled is reported once.
    """

    def __init__(self) -> None:
        self._last = -1
        self._mark: int | None = None
        # Batches taken from a replay, which the live stream may bring once more: their marks by number.
        self._replayed: dict[int, int] = {}

    @property
    def last(self) -> int | None:
        """The number of the latest batch; None before the first one."""
        return self._last if self._last >= 0 else None

    @property
    def mark(self) -> int | None:
        """The mark of the latest batch."""
        return self._mark

    @property
    def expected(self) -> int:
        """The number of the batch that comes next if nothing is missed."""
        return self._last + 1

    def reset(self) -> None:
        """Back to the start: the next batch of the publisher is 0."""
        self.go_on_from(-1, None)

    def go_on_from(self, seq: int, mark: int | None) -> None:
        """Every batch up to `seq`, with that `mark`, is known: the next one is `seq` + 1."""
        self._last, self._mark = seq, mark
        self._replayed.clear()

    def observe(self, seq: int, mark: int | None = None) -> Verdict:
        """Judges a batch of the live stream."""
        if seq <= self._last:
            if self._is_repeat(seq, mark):
                return Duplicate()
            verdict: Verdict = Restart(Gap(0, seq - 1) if seq > 0 else None)
        else:
            verdict = self._forward(seq)
        self.go_on_from(seq, mark)
        return verdict

    def observe_replayed(self, seq: int, mark: int) -> Next | Gap | Duplicate:
        """Judges a batch of a replay, whose history may begin before what is known: older batches are duplicates."""
        if seq <= self._last:
            return Duplicate()
        verdict = self._forward(seq)
        self._replayed[seq] = mark
        self._last, self._mark = seq, mark
        return verdict

    def _forward(self, seq: int) -> Next | Gap:
        return Next() if seq == self._last + 1 else Gap(self._last + 1, seq - 1)

    def _is_repeat(self, seq: int, mark: int | None) -> bool:
        """The latest batch again, or one that a replay brought first. Without marks batch 0 is a new process's."""
        if seq == self._last:
            return seq > 0 if mark is None or self._mark is None else mark == self._mark
        return mark is not None and self._replayed.get(seq) == mark
