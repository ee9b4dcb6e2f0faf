"""The tracker against its slow twin, and the verdicts one by one."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from warmroute.kv_event import Duplicate, Gap, Next, Restart, SequenceTracker, Verdict


@dataclass
class Seen:
    seq: int
    mark: int | None
    live: bool


@dataclass
class NaiveTracker:
    """Keeps everything it has seen of the current process, and looks through all of it each time."""

    history: list[Seen] = field(default_factory=list)

    def observe(self, seq: int, mark: int | None = None) -> Verdict:
        verdict = self.judge(seq, mark)
        if isinstance(verdict, Duplicate):
            return verdict
        if isinstance(verdict, Restart):
            self.history.clear()
        self.history.append(Seen(seq, mark, live=True))
        return verdict

    def observe_replayed(self, seq: int, mark: int) -> Verdict:
        last = max((seen.seq for seen in self.history), default=-1)
        if seq <= last:
            return Duplicate()
        self.history.append(Seen(seq, mark, live=False))
        return Next() if seq == last + 1 else Gap(last + 1, seq - 1)

    def judge(self, seq: int, mark: int | None) -> Verdict:
        last = self.history[-1] if self.history else Seen(-1, None, live=False)
        if seq == last.seq + 1:
            return Next()
        if seq > last.seq:
            return Gap(last.seq + 1, seq - 1)
        if seq == last.seq and (mark is None or last.mark is None):
            return Duplicate() if seq > 0 else Restart()
        since_live = []
        for seen in reversed(self.history):
            if seen.live:
                break
            since_live.append(seen)
        for seen in [last, *since_live]:
            if (seen.seq, seen.mark) == (seq, mark):
                return Duplicate()
        return Restart(Gap(0, seq - 1) if seq else None)


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 2), st.booleans()), max_size=30)


@given(steps)
def test_the_tracker_agrees_with_its_twin(steps: list[tuple[bool, int, int, bool]]) -> None:
    tracker, naive = SequenceTracker(), NaiveTracker()
    for live, seq, mark, marked in steps:
        if live:
            assert tracker.observe(seq, mark if marked else None) == naive.observe(seq, mark if marked else None)
        else:
            assert tracker.observe_replayed(seq, mark) == naive.observe_replayed(seq, mark)
        assert tracker.last == (naive.history[-1].seq if naive.history else None)


@given(st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(0, 5))), min_size=1, max_size=4))
def test_every_lost_batch_is_in_a_gap_and_every_visible_restart_seen(processes: list[tuple[int, set[int]]]) -> None:
    """A publisher restarted a few times, some of its batches lost on the way."""
    tracker = SequenceTracker()
    last_delivered = -1
    for process, (published, lost) in enumerate(processes):
        delivered = [seq for seq in range(published) if seq not in lost]
        missed: set[int] = set()
        for position, seq in enumerate(delivered):
            verdict = tracker.observe(seq, hash((process, seq)))
            if position == 0 and process > 0 and seq <= last_delivered:
                assert isinstance(verdict, Restart)
            else:
                assert isinstance(verdict, Next | Gap)
            gap = verdict.missed if isinstance(verdict, Restart) else verdict
            if isinstance(gap, Gap):
                assert len(gap) == gap.last - gap.first + 1
                missed |= set(range(gap.first, gap.last + 1))
        first_is_hidden = bool(delivered) and delivered[0] > last_delivered >= 0
        if delivered and not first_is_hidden:
            assert missed == {seq for seq in range(delivered[-1]) if seq in lost}
        last_delivered = delivered[-1] if delivered else last_delivered


def test_in_order_is_next() -> None:
    tracker = SequenceTracker()
    assert tracker.last is None
    assert [tracker.observe(seq) for seq in range(4)] == [Next()] * 4
    assert tracker.last == 3


def test_a_first_batch_above_zero_is_a_gap() -> None:
    assert SequenceTracker().observe(3) == Gap(0, 2)


def test_a_gap_is_reported_once() -> None:
    tracker = SequenceTracker()
    assert [tracker.observe(seq) for seq in (0, 1, 4, 5)] == [Next(), Next(), Gap(2, 3), Next()]
    assert len(Gap(2, 3)) == 2


def test_going_backwards_is_a_restart() -> None:
    tracker = SequenceTracker()
    for seq in range(10):
        tracker.observe(seq)
    assert tracker.observe(4) == Restart(Gap(0, 3))
    assert tracker.observe(5) == Next()
    assert tracker.observe(0) == Restart(None)
    assert tracker.observe(0) == Restart(None)


def test_the_same_number_with_another_payload_is_another_process() -> None:
    tracker = SequenceTracker()
    tracker.observe(0, 11)
    assert tracker.observe(0, 11) == Duplicate()
    assert tracker.observe(0, 12) == Restart(None)
    tracker.observe(1, 13)
    assert tracker.observe(1, 14) == Restart(Gap(0, 0))


def test_what_a_replay_brought_is_a_duplicate_when_it_comes_live() -> None:
    tracker = SequenceTracker()
    assert [tracker.observe_replayed(seq, seq) for seq in range(3)] == [Next()] * 3
    assert [tracker.observe(1, 1), tracker.observe(2, 2), tracker.observe(3, 3)] == [Duplicate(), Duplicate(), Next()]
    assert tracker.observe(1, 1) == Restart(Gap(0, 0))
