"""Who waits has a turn: by class, fairly between tenants, the short before the long, nobody lost and nobody twice."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.naive_queue import NaiveQueue
from warmroute.admission import Waiter, WaitingQueue


def waiter(
    work_s: float = 1.0,
    at: float = 0.0,
    tenant: str = "t",
    priority: int = 0,
    model: str | None = "m",
    deadline: float = 1e9,
) -> Waiter:
    return Waiter(model, tenant, priority, work_s, at, deadline)


def drained(queue: WaitingQueue[Waiter]) -> list[Waiter]:
    """Everybody, in the order of their turns."""
    found = []
    while (each := queue.pop(0.0, lambda _: True)) is not None:
        found.append(each)
        queue.check_integrity()
    return found


def test_lower_classes_first_whatever_their_work() -> None:
    queue = WaitingQueue[Waiter](10)
    late, normal, urgent = waiter(0.1, priority=5), waiter(1.0), waiter(9.0, at=3.0, priority=-1)
    for each in (late, normal, urgent):
        assert queue.offer(each) is None
    assert drained(queue) == [urgent, normal, late]


def test_the_shortest_first_and_a_second_waited_counts_as_a_second_of_work() -> None:
    queue = WaitingQueue[Waiter](10)
    long, short, later = waiter(10.0), waiter(1.0), waiter(1.0, at=9.5)
    for each in (long, short, later):
        queue.offer(each)
    assert drained(queue) == [short, long, later]


def test_nobody_starves_behind_short_ones_that_never_end() -> None:
    queue = WaitingQueue[Waiter](10)
    long = waiter(10.0)
    queue.offer(long)
    turns = 0
    while long.waiting:
        queue.offer(waiter(0.1, at=0.1 * turns))
        queue.pop(0.1 * turns, lambda _: True)
        turns += 1
        assert turns < 110


def test_a_tenant_with_long_prompts_gets_no_more_than_one_with_short_ones() -> None:
    queue = WaitingQueue[Waiter](1000)
    for _ in range(20):
        queue.offer(waiter(10.0, tenant="long"))
    for _ in range(200):
        queue.offer(waiter(1.0, tenant="short"))
    had = Counter[str]()
    for each in drained(queue)[:110]:
        had[each.tenant] += round(each.work_s)
        assert abs(had["long"] - had["short"]) <= 10, "more than one request's work apart"


def test_a_tenant_who_sends_one_by_one_has_no_advantage() -> None:
    queue = WaitingQueue[Waiter](1000)
    for _ in range(200):
        queue.offer(waiter(1.0, tenant="many"))
    had = Counter[str]()
    for _ in range(100):
        if not any(each.tenant == "single" for each in queue):
            queue.offer(waiter(10.0, tenant="single"))
        each = queue.pop(0.0, lambda _: True)
        assert each is not None
        had[each.tenant] += round(each.work_s)
    assert abs(had["single"] - had["many"]) <= 10


def test_a_newcomer_does_not_get_what_others_had_while_it_was_away() -> None:
    queue = WaitingQueue[Waiter](1000)
    for _ in range(100):
        queue.offer(waiter(1.0, tenant="old"))
    for _ in range(50):
        queue.pop(0.0, lambda _: True)
    for _ in range(50):
        queue.offer(waiter(1.0, tenant="new"))
    had = Counter(each.tenant for each in drained(queue)[:20])
    assert had == {"old": 10, "new": 10}


def test_a_full_queue_turns_away_the_newest_of_the_lowest_class() -> None:
    queue = WaitingQueue[Waiter](3)
    first, second, low = waiter(at=0.0), waiter(at=1.0), waiter(at=2.0, priority=3)
    for each in (first, second, low):
        queue.offer(each)
    assert queue.offer(coming := waiter(at=3.0)) is low
    assert queue.offer(late := waiter(at=4.0)) is late
    assert queue.offer(urgent := waiter(at=5.0, priority=-1)) is coming
    queue.check_integrity()
    assert drained(queue) == [urgent, first, second]


def test_who_fills_the_queue_loses_first() -> None:
    queue = WaitingQueue[Waiter](3)
    greedy = [waiter(at=float(number), tenant="greedy") for number in range(3)]
    for each in greedy:
        queue.offer(each)
    assert queue.offer(waiter(at=4.0, tenant="modest")) is greedy[-1]
    assert len(queue) == 3


def test_a_turn_goes_to_those_whose_workers_have_room() -> None:
    queue = WaitingQueue[Waiter](10)
    a, b = waiter(model="a"), waiter(model="b", priority=4)
    queue.offer(a)
    queue.offer(b)
    assert queue.pop(0.0, lambda model: model == "b") is b
    assert queue.pop(0.0, lambda model: model == "b") is None
    assert queue.waits_for("a")
    assert not queue.waits_for("b")


def test_who_leaves_is_gone_at_once_and_costs_its_tenant_nothing() -> None:
    queue = WaitingQueue[Waiter](10)
    leaving, staying, other = waiter(5.0), waiter(6.0), waiter(1.0, at=0.5, tenant="other")
    for each in (leaving, staying, other):
        queue.offer(each)
    assert queue.remove(leaving)
    assert not queue.remove(leaving)
    assert len(queue) == 2
    assert drained(queue) == [staying, other]


def test_deadlines() -> None:
    queue = WaitingQueue[Waiter](10)
    soon, later = waiter(deadline=1.0), waiter(deadline=2.0)
    queue.offer(later)
    queue.offer(soon)
    assert queue.next_deadline() == 1.0
    assert queue.expire(0.9) == []
    assert queue.expire(2.0) == [soon, later]
    assert len(queue) == 0


def test_when_to_come_again_is_told_from_how_fast_it_drains() -> None:
    queue = WaitingQueue[Waiter](100)
    for _ in range(60):
        queue.offer(waiter())
    assert queue.retry_after_s(0.0) == 1.0, "nothing is known yet"
    for number in range(11):
        queue.pop(0.5 * number, lambda _: True)
    assert queue.retry_after_s(5.0) == pytest.approx(25.0)
    assert queue.retry_after_s(1e6) == 60.0, "it has come to a stand"


def test_many_tenants_leave_no_trace() -> None:
    queue = WaitingQueue[Waiter](2000)
    for number in range(5000):
        queue.offer(waiter(0.01, tenant=f"tenant {number}", model=f"model {number % 400}"))
        queue.pop(0.0, lambda _: True)
    queue.check_integrity()
    assert len(queue._bands) <= 257


_REQUEST = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["one", "two", "three"]),
    st.integers(-1, 1),
    st.sampled_from([0.0, 0.25, 1.0, 8.0]),
    st.sampled_from([1.0, 4.0, 100.0]),
)
_STEP = st.one_of(
    st.tuples(st.just("offer"), _REQUEST),
    st.tuples(st.just("pop"), st.sampled_from(["a", "b", "any"])),
    st.tuples(st.just("leave"), st.integers(0, 20)),
    st.tuples(st.just("wait"), st.sampled_from([0.25, 1.0])),
)


@given(st.integers(1, 6), st.lists(_STEP, max_size=60))
def test_it_does_as_the_naive_one(size: int, steps: list[tuple[str, Any]]) -> None:
    queue, naive = WaitingQueue[Waiter](size), NaiveQueue(size)
    now, offered, ended = 0.0, list[Waiter](), Counter[int]()
    for step, told in steps:
        if step == "offer":
            model, tenant, priority, work_s, patience = told
            coming = Waiter(model, tenant, priority, work_s, now, now + patience)
            offered.append(coming)
            loser = queue.offer(coming)
            assert naive.offer(coming) is loser
            gone = [] if loser is None else [loser]
        elif step == "pop":
            fits = (lambda _: True) if told == "any" else (lambda model, told=told: model == told)
            turn = queue.pop(now, fits)
            assert naive.pop(fits) is turn
            gone = [] if turn is None else [turn]
        elif step == "leave":
            leaving = offered[told % len(offered)] if offered else None
            gone = [leaving] if leaving is not None and queue.remove(leaving) else []
            assert leaving is None or naive.remove(leaving) == bool(gone)
        else:
            now += told
            gone = queue.expire(now)
            assert naive.expire(now) == gone
        ended.update(each.number for each in gone)
        assert not any(each.waiting for each in gone)
        queue.check_integrity()
        assert len(queue) == len(naive.waiting) <= size
    assert set(ended.values()) <= {1}, "somebody ended twice"
    assert len(ended) + len(queue) == len(offered), "somebody was lost"
