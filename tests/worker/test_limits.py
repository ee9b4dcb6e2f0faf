"""From when on a worker is full, and how much one that has come up may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.worker import LARGEST_COUNT, LoadReport, Worker, WorkerFacts, WorkerSpec, WorkerStatus, WorkerTable


def ready(table: WorkerTable, name: str, came_up_at: float | None = None, **spec: int) -> Worker:
    worker = table.add(WorkerSpec(f"http://{name}:1", **spec))  # type: ignore[arg-type]
    table.set_status(worker, WorkerStatus.READY, came_up_at=came_up_at)
    return worker


def look(table: WorkerTable, worker: Worker, running: int, waiting: int, at: float = 0.0) -> None:
    table.take_report(worker, LoadReport(running + waiting, None, at, waiting=waiting), running + waiting)


class TestLimits:
    def test_a_limit_that_a_person_gives_wins_and_has_no_stock(self) -> None:
        table = WorkerTable(limits=True, max_requests=7)
        own, fleets = ready(table, "own", max_requests=3), ready(table, "fleet")
        for worker in (own, fleets):
            table.learn(worker, WorkerFacts(max_running_requests=100))
        assert (own.full_at, fleets.full_at) == (3, 7)

    def test_what_the_engine_says_counts_for_each_rank_and_a_few_may_wait_there(self) -> None:
        table = WorkerTable(limits=True)
        worker = ready(table, "a")
        table.learn(worker, WorkerFacts(max_running_requests=64))
        assert worker.full_at == 66
        table.set_ranks(worker, range(4))
        assert worker.full_at == 256 + 8

    def test_an_engine_that_queues_shows_no_limit(self) -> None:
        """Prompts wait for memory, or for the next step's tokens, at any number of requests."""
        table = WorkerTable(limits=True)
        worker = ready(table, "a")
        for _ in range(10):
            look(table, worker, 20, 40)
        assert worker.full_at == LARGEST_COUNT

    def test_without_a_queue_in_the_router_nothing_is_ever_full(self) -> None:
        table = WorkerTable(max_requests=1)
        worker = ready(table, "a")
        assert worker.full_at == LARGEST_COUNT
        table.reconfigure(slow_start_s=0.0, limits=True, max_requests=1)
        assert worker.full_at == 1

    def test_others_requests_fill_a_worker_for_as_long_as_the_report_is_fresh(self) -> None:
        table = WorkerTable(limits=True, max_requests=5)
        worker = ready(table, "a")
        table.take_report(worker, LoadReport(5, None, 10.0), own_requests=0)
        assert not table.with_room([worker], 11.0)
        assert table.with_room([worker], 16.0) == [worker]

    def test_room_is_told_when_a_full_worker_has_one_less(self) -> None:
        table = WorkerTable(limits=True, max_requests=2)
        worker = ready(table, "a")
        told: list[int] = []
        table.has_room = lambda: told.append(worker.requests)
        bookings = [table.book(worker, f"r{number}", 0, None) for number in range(3)]
        assert table.saturated == {worker}
        for booking in bookings:
            table.check_integrity()
            table.release(booking, 0.0)
        assert (told, table.saturated) == ([1], set())

    @given(st.lists(st.tuples(st.sampled_from(["book", "release", "limit", "look"]), st.integers(0, 6)), max_size=40))
    def test_who_is_full_is_always_known(self, steps: list[tuple[str, int]]) -> None:
        table = WorkerTable(limits=True, max_requests=3)
        workers = [ready(table, name) for name in "ab"]
        bookings = []
        for step, number in steps:
            worker = workers[number % 2]
            if step == "book":
                bookings.append(table.book(worker, "r", number, None))
            elif step == "release" and bookings:
                table.release(bookings.pop(number % len(bookings)), 0.0)
            elif step == "limit":
                table.reconfigure(slow_start_s=0.0, limits=number != 0, max_requests=number or None)
            elif step == "look":
                table.take_report(worker, LoadReport(number, None, 0.0), own_requests=worker.requests)
            table.check_integrity()
            assert table.saturated == {each for each in workers if each.is_full(0.0)}


class TestSlowStart:
    def test_its_share_grows_to_what_the_others_have(self) -> None:
        table = WorkerTable(slow_start_s=10.0)
        old, new = ready(table, "old"), ready(table, "new", came_up_at=100.0)
        for number in range(20):
            table.book(old, f"r{number}", 0, None)
        allowed = {}
        for after in (0.0, 5.0, 9.0):
            count = 0
            while new in table.warm([old, new], 100.0 + after):
                table.book(new, "r", 0, None)
                count += 1
            allowed[after] = new.requests
        assert allowed == {0.0: 1, 5.0: 11, 9.0: 19}
        assert new in table.well([old, new], 110.0)
        assert (new.warming_since, table.set_aside) == (None, set())
        table.check_integrity()

    def test_where_all_are_new_each_may_have_everything(self) -> None:
        table = WorkerTable(slow_start_s=10.0)
        both = [ready(table, name, came_up_at=0.0) for name in "ab"]
        for number in range(50):
            table.book(both[number % 2], "r", 0, None)
        assert table.warm(both, 0.1) == both

    def test_without_it_nobody_is_set_aside(self) -> None:
        table = WorkerTable()
        ready(table, "a", came_up_at=0.0)
        assert not table.set_aside


class TestQueueOfTheEngine:
    def test_those_who_wait_are_part_of_the_load_while_the_look_is_fresh(self) -> None:
        table = WorkerTable()
        worker = ready(table, "w")
        look(table, worker, running=20, waiting=6, at=10.0)
        assert worker.load(12.0).waiting == worker.lane_load(worker.lanes[0], 12.0).waiting == 6
        assert worker.load(16.0).waiting == 0
        lanes = table.set_ranks(worker, range(2))
        assert worker.lane_load(lanes[0], 12.0).waiting == 3

    @pytest.mark.parametrize(("running", "waiting", "lets_wait"), [(10, 1, False), (10, 2, True), (64, 3, False)])
    def test_one_or_two_that_have_just_come_are_no_queue(self, running: int, waiting: int, lets_wait: bool) -> None:
        table = WorkerTable()
        worker = ready(table, "w")
        look(table, worker, running, waiting, at=10.0)
        assert worker.lets_wait(11.0) == lets_wait
        assert not worker.lets_wait(99.0)

    def test_an_engine_that_does_not_tell_lets_nobody_wait(self) -> None:
        table = WorkerTable()
        worker = ready(table, "w")
        table.take_report(worker, LoadReport(50, None, 0.0), 0)
        assert not worker.lets_wait(1.0)
        assert worker.load(1.0).waiting == 0


def test_those_who_decode_are_counted_over_time() -> None:
    table = WorkerTable()
    worker = ready(table, "w")
    first, second = (table.book(worker, name, 10, None) for name in ("a", "b"))
    table.end_prefill(first, 2.0)
    table.end_prefill(second, 5.0)
    table.release(second, 9.0)
    assert (second.since, second.until) == (3.0, 3.0 + 2 * 4.0)
    table.release(first, 8.0)  # told late: it adds nothing, and takes nothing away
    assert (first.since, first.until) == (0.0, 11.0)
    table.check_integrity()
