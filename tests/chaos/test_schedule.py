"""What goes wrong follows from the seed, and is undone before the end."""

from collections import Counter
from itertools import pairwise

from chaos.asks import PATHS, make_asks
from chaos.lies import Lie
from chaos.schedule import FaultKind, make_schedule


def test_the_same_seed_makes_the_same_faults_and_asks() -> None:
    assert make_schedule(3, 60.0, 5, 3) == make_schedule(3, 60.0, 5, 3)
    assert make_schedule(3, 60.0, 5, 3) != make_schedule(4, 60.0, 5, 3)
    assert make_asks(3) == make_asks(3)
    assert make_asks(3) != make_asks(4)


def test_a_run_has_every_kind_of_fault_and_every_lie() -> None:
    schedule = make_schedule(1, 300.0, 5, 3)
    assert {fault.kind for fault in schedule} == set(FaultKind)
    told = Counter(fault.lie for fault in schedule if fault.kind is FaultKind.LIE)
    assert set(told) == set(Lie) - {Lie.HONEST}
    assert max(told.values()) - min(told.values()) <= 3, "each comes about as often as any other"


def test_one_engine_is_never_touched_and_each_other_has_one_fault_at_a_time() -> None:
    schedule = make_schedule(1, 300.0, 5, 3)
    assert {fault.target for fault in schedule} == set(range(1, 8))
    for target in range(1, 8):
        own = [fault for fault in schedule if fault.target == target]
        assert all(before.at + before.lasts < after.at for before, after in pairwise(own))


def test_all_is_undone_at_the_end() -> None:
    assert all(fault.at > 0.0 and fault.at + fault.lasts < 60.0 for fault in make_schedule(1, 60.0, 5, 3))


def test_the_asks_cover_each_endpoint_streamed_and_not() -> None:
    asks = make_asks(1)
    assert {(ask.path, ask.stream) for ask in asks} == {(path, stream) for path in PATHS for stream in (True, False)}
