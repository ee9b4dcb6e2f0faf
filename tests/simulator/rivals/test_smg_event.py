"""SMG with events."""

from simulator.rivals.hand_made import asked, candidate, choices
from warmroute.block import Overlap
from warmroute.simulator.rivals.smg_event import SmgEventPolicy


def test_most_blocks_then_less_load_then_chance() -> None:
    held = Overlap(device=10)
    policy = SmgEventPolicy()
    assert choices(policy, asked(), [candidate(0, 60, Overlap(device=11)), candidate(1, 0, held)]) == {0}
    assert choices(policy, asked(), [candidate(0, 3, held), candidate(1, 2, held), candidate(2)]) == {1}
    assert choices(policy, asked(), [candidate(0, 2, held), candidate(1, 2, held), candidate(2)]) == {0, 1}


def test_what_is_only_expected_does_not_count() -> None:
    workers = [candidate(0, overlap=Overlap(device=2, predicted=50)), candidate(1, overlap=Overlap(device=3))]
    assert choices(SmgEventPolicy(), asked(), workers) == {1}


def test_nobody_holds_any_the_first_of_the_least_loaded() -> None:
    assert choices(SmgEventPolicy(), asked(), [candidate(0, 2), candidate(1, 1), candidate(2, 1)]) == {1}


def test_far_apart_loads_end_affinity_only_above_both_bounds() -> None:
    held = Overlap(device=90)
    policy = SmgEventPolicy()
    assert choices(policy, asked(), [candidate(0, 64, held), candidate(1, 0)]) == {0}
    assert choices(policy, asked(), [candidate(0, 65, held), candidate(1, 0)]) == {1}
    assert choices(policy, asked(), [candidate(0, 225, held), candidate(1, 150)]) == {0}  # 75 apart, 1.5 times
    assert choices(policy, asked(), [candidate(0, 226, held), candidate(1, 150)]) == {1}
