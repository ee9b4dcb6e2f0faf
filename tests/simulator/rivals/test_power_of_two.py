"""Two choices."""

from simulator.rivals.hand_made import asked, choices, fleet
from warmroute.simulator.rivals.power_of_two import PowerOfTwoPolicy


def test_the_heaviest_of_all_is_never_taken_and_everybody_else_is() -> None:
    assert choices(PowerOfTwoPolicy(), asked(), fleet(9, 1, 2, 3)) == {1, 2, 3}


def test_with_as_many_choices_as_workers_it_is_the_least_loaded() -> None:
    assert choices(PowerOfTwoPolicy(8), asked(), fleet(9, 1, 2, 3)) == {1}


def test_with_one_choice_it_is_random_and_one_worker_is_enough() -> None:
    assert choices(PowerOfTwoPolicy(1), asked(), fleet(9, 1, 2)) == {0, 1, 2}
    assert choices(PowerOfTwoPolicy(), asked(), fleet(4)) == {0}
