"""Second tries are a part of the requests, and a few per second."""

from warmroute.admission import RetryBudget


def test_a_fleet_that_fails_as_a_whole_gets_a_fifth_more_and_a_few_per_second() -> None:
    budget = RetryBudget(0.2, 3.0)
    for number in range(10_000):
        budget.request()
        budget.take(0.01 * number)
        budget.take(0.01 * number)
    assert 2_000 <= budget.spent <= 2_000 + 3 * 100 + 30
    assert budget.spent + budget.refused == 20_000


def test_one_engine_that_dies_full_is_covered_by_what_was_saved() -> None:
    budget = RetryBudget(0.2, 3.0)
    for _ in range(10_000):
        budget.request()
    assert all(budget.take(1.0) for _ in range(256))
    assert sum(budget.take(1.0) for _ in range(1_000)) < 31, "no more is saved than that and the floor's"


def test_a_router_with_little_to_do_may_try_a_few_at_once() -> None:
    budget = RetryBudget(0.2, 3.0)
    assert [budget.take(0.0) for _ in range(31)] == [True] * 30 + [False]
    assert budget.take(1.0)


def test_without_share_and_floor_nothing_is_tried_again() -> None:
    budget = RetryBudget(0.0, 0.0)
    budget.request()
    assert not budget.take(1e6)
