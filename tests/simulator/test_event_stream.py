"""What comes of an engine's events in the index, whatever delays and losses there are on the way."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.block import Namespace, Tier, hash_blocks
from warmroute.engine_model import EngineModel, EngineOptions, KvChange, KvStored, Request
from warmroute.engine_model.block_hasher import BlockHasher
from warmroute.prefix_index import PrefixIndex
from warmroute.simulator.event_stream import EventStream
from warmroute.simulator.workload import EventPath
from warmroute.worker import LaneKey

LANE = LaneKey(7)
SIZE = 4
NAMESPACE = Namespace()
SMALL = EngineOptions(block_size=SIZE, num_blocks=24, host_blocks=6, disk_blocks=5, request_overhead_s=0.0)


def stored(number: int) -> KvStored:
    """One block of a prompt of its own."""
    return KvStored((1000 + number,), None, range(SIZE * number, SIZE * (number + 1)), SIZE, NAMESPACE)


def holds(index: PrefixIndex, number: int) -> bool:
    tokens = range(SIZE * number, SIZE * (number + 1))
    return LANE in index.match(hash_blocks(list(tokens), SIZE, NAMESPACE), 0.0)


class Lossy(random.Random):
    """Loses the frames of these numbers."""

    def __init__(self, lost: Sequence[int]) -> None:
        super().__init__()
        self._lost, self._frame = set(lost), -1

    def random(self) -> float:
        self._frame += 1
        return 0.0 if self._frame in self._lost else 1.0


def stream_of(delay_s: float = 0.5, lost: Sequence[int] = ()) -> tuple[EventStream, PrefixIndex]:
    index = PrefixIndex()
    index.add_worker(LANE, 100)
    return EventStream(index, LANE, EventPath(delay_s, 0.5 if lost else 0.0), Lossy(lost)), index


def test_an_event_is_known_once_its_time_has_come() -> None:
    stream, index = stream_of()
    assert stream.publish([stored(0)], 1.5) == 1.5
    assert stream.take(1.49) is None
    assert not holds(index, 0)
    assert stream.take(1.5) is None
    assert holds(index, 0)


def test_nothing_is_sent_where_nothing_happened() -> None:
    stream, _ = stream_of()
    assert stream.publish([], 1.0) is None
    assert stream.publish([stored(0)], 1.0) == 1.0
    assert (stream.lost, stream.gaps) == (0, 0)


def test_a_loss_is_noticed_at_the_next_event_and_made_good_after_a_way_and_back() -> None:
    stream, index = stream_of(0.5, lost=[1, 2])
    assert stream.publish([stored(0)], 1.0) == 1.0
    assert stream.publish([stored(1)], 1.1) is None
    assert stream.publish([stored(2)], 1.2) is None
    assert stream.take(5.0) is None  # nobody can know of it yet
    assert [holds(index, number) for number in range(3)] == [True, False, False]
    stream.publish([stored(3)], 6.0)
    assert stream.take(6.0) == 7.0
    assert [holds(index, number) for number in range(4)] == [True, False, False, False]
    stream.publish([stored(4)], 6.5)
    assert stream.take(6.5) == 7.0  # what comes meanwhile waits for its turn
    assert stream.take(7.0) is None
    assert all(holds(index, number) for number in range(5))
    assert (stream.lost, stream.gaps) == (2, 1)


def test_what_was_lost_is_applied_in_its_place() -> None:
    """The block goes in the lost batch, and comes back in the next one."""
    engine = EngineModel(EngineOptions(block_size=SIZE, num_blocks=2, request_overhead_s=0.0))
    batches = [play(engine, tokens, float(number)) for number, tokens in enumerate(([1] * 7, [2] * 7, [1] * 7))]
    stream, index = stream_of(0.0, lost=[1])
    for number, changes in enumerate(batches):
        stream.publish(changes, float(number))
        stream.take(float(number))
    assert index.worker_stats(LANE)["confirmed"] == len(engine.cached_hashes()) == 1
    assert LANE in index.match(hash_blocks([1] * SIZE, SIZE, NAMESPACE), 0.0)


def play(engine: EngineModel, tokens: list[int], now: float) -> list[KvChange]:
    """One request, alone, to its end; what it did to the cache."""
    engine.submit(Request(f"at {now}", tokens, [9]), now)
    changes, step = list[KvChange](), engine.step(now)
    while step is not None:
        changes += engine.complete(step).changes
        now = step.ends_at
        step = engine.step(now)
    return changes


def test_another_process_begins_with_nothing() -> None:
    stream, index = stream_of(0.5, lost=[1])
    stream.publish([stored(0)], 1.0)
    stream.publish([stored(1)], 2.0)
    stream.publish([stored(2)], 3.0)
    assert stream.take(3.0) == 4.0
    stream.begin_anew()
    assert index.blocks(LANE) == 0
    assert stream.take(9.0) is None
    stream.publish([stored(5)], 10.0)
    assert stream.take(10.0) is None
    assert [holds(index, number) for number in range(6)] == [False] * 5 + [True]


def test_what_another_process_says_first_may_get_lost_as_well() -> None:
    stream, index = stream_of(0.5, lost=[2])
    for number in range(2):
        stream.publish([stored(number)], 1.0)
    stream.take(1.0)
    stream.begin_anew()
    stream.publish([stored(5)], 2.0)
    stream.publish([stored(6)], 3.0)
    assert stream.take(3.0) == 4.0
    assert stream.take(4.0) is None
    assert [holds(index, number) for number in (0, 1, 5, 6)] == [False, False, True, True]


def test_what_the_publisher_no_longer_has_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmroute.simulator.event_stream._BUFFERED", 2)
    stream, index = stream_of(0.0, lost=[0, 1])
    for number in range(3):
        stream.publish([stored(number)], 1.0)
    stream.take(1.0)
    assert [holds(index, number) for number in range(3)] == [False, True, True]


@dataclass
class Told:
    """An engine whose every batch is published; `sent` keeps the prompts with what was answered."""

    path: EventPath
    seed: int
    engine: EngineModel = field(init=False)
    index: PrefixIndex = field(default_factory=PrefixIndex)
    stream: EventStream = field(init=False)
    sent: list[list[int]] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.engine = EngineModel(SMALL, self.seed)
        self.index.add_worker(LANE, 100)
        self.stream = EventStream(self.index, LANE, self.path, random.Random(self.seed))

    def ask(self, tokens: list[int], answer: int) -> None:
        self.engine.submit(Request(f"r{len(self.sent)}", tokens, [500] * answer), self.now)
        self.sent.append(tokens + [500] * answer)

    def go_on(self, iterations: int, look_after: float) -> None:
        """One step, within which somebody looks; times go on to its end."""
        wake_at = self.engine.wake_at(self.now)
        if wake_at is None:
            return
        self.now = wake_at
        step = self.engine.step(self.now, iterations)
        if step is None:
            return
        look_at = self.now + look_after * step.duration_s
        self.stream.publish(self.engine.changes_until(step, look_at - self.path.delay_s), look_at)
        self.stream.take(look_at)
        self.now = step.ends_at
        self.stream.publish(self.engine.complete(step).changes, self.now + self.path.delay_s)
        self.stream.take(self.now)

    def believed(self, tokens: list[int]) -> int:
        found = self.index.match(hash_blocks(tokens, SIZE, NAMESPACE), self.now).get(LANE)
        return 0 if found is None else found.blocks

    def held(self, tokens: list[int]) -> int:
        """Leading blocks that the engine holds in any tier."""
        names = [self.engine.cached_hashes(tier) for tier in (Tier.DEVICE, Tier.HOST, Tier.DISK)]
        hashes = BlockHasher(SIZE, self.seed).hashes(tokens, NAMESPACE)
        missing = (place for place, name in enumerate(hashes) if not any(name in tier for tier in names))
        return next(missing, len(hashes))


REQUESTS = st.tuples(st.integers(0, 3), st.integers(1, 30), st.integers(1, 9))
ACTIONS = st.lists(st.one_of(REQUESTS, st.tuples(st.integers(1, 20), st.floats(0, 1))), max_size=40)


@settings(deadline=None)
@given(ACTIONS, st.sampled_from([0.0, 0.002, 0.3, 5.0]), st.sampled_from([0.0, 0.1, 0.7]), st.integers(0, 5))
def test_when_all_has_come_the_index_holds_what_the_engine_holds(
    actions: list[tuple[int, int, int] | tuple[int, float]], delay_s: float, loss: float, seed: int
) -> None:
    told = Told(EventPath(delay_s, loss), seed)
    for action in actions:
        if len(action) == 3:
            prefix, length, answer = action
            told.ask([prefix] * length, answer)
        else:
            told.go_on(*action)
    while told.engine.wake_at(told.now) is not None:
        told.go_on(1_000, 0.5)
    told.now += 100.0
    settle(told)
    assert [told.believed(tokens) for tokens in told.sent] == [told.held(tokens) for tokens in told.sent]
    stats = told.index.worker_stats(LANE)
    held = {name for tier in (Tier.DEVICE, Tier.HOST, Tier.DISK) for name in told.engine.cached_hashes(tier)}
    assert (stats["confirmed"], stats["orphans"]) == (len(held), 0)


def settle(told: Told) -> None:
    """One more batch, which comes for certain, so that losses before it are noticed; then time enough."""
    told.stream._path = EventPath(told.path.delay_s)
    told.ask([77] * SIZE, SIZE)
    while told.engine.wake_at(told.now) is not None:
        told.go_on(1, 1.0)
    look_at: float | None = told.now + 100.0
    while look_at is not None:  # each gap is noticed when the one before has been filled
        told.now, look_at = look_at, told.stream.take(look_at)
