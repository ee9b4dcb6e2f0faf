from collections.abc import Iterator

import pytest

from simulator.workloads.made import text
from warmroute.engine_model import EngineOptions
from warmroute.errors import ConfigError
from warmroute.simulator.tokens import Ids
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn, WorkerAdded, WorkerLost
from warmroute.simulator.workloads import scaled, workload

POD = EngineOptions()


class TwoStages:
    name = "two"
    about = "two stages"
    fleet = FleetPlan((POD,) * 2, (WorkerLost(40.0, 1, for_s=30.0), WorkerAdded(60.0, POD)))

    def stages(self, seed: int) -> Iterator[Stage]:
        spoken = Turn(Ids(text(8)), Ids(text(2)), wait_s=5.0)
        for name, starts in (("one", (0.0, 4.0, 10.0, 30.0)), ("two", (1.0, 20.0, 20.1))):
            yield Stage(name, [Session(at, (spoken, spoken), name=str(seed)) for at in starts], rate=3.0, pause_s=2.0)


def test_starts_come_sooner_and_pauses_stay() -> None:
    faster = scaled(TwoStages(), speed=2.0)
    assert (faster.name, faster.about) == ("two", "two stages")
    one, two = faster.stages(7)
    assert [session.start_s for session in one.sessions] == [0.0, 2.0, 5.0, 15.0]
    assert [session.start_s for session in two.sessions] == [0.5, 10.0, 10.05]
    assert {turn.wait_s for session in one.sessions for turn in session.turns} == {5.0}
    assert (one.rate, one.pause_s, one.sessions[0].name) == (6.0, 2.0, "7")


def test_what_happens_to_the_fleet_comes_sooner_too() -> None:
    lost, added = scaled(TwoStages(), speed=0.5).fleet.happenings
    assert lost == WorkerLost(80.0, 1, for_s=30.0)
    assert added == WorkerAdded(120.0, POD)
    assert scaled(TwoStages(), speed=0.5).fleet.engines == (POD, POD)


def test_a_duration_cuts_every_stage_after_scaling() -> None:
    one, two = scaled(TwoStages(), speed=2.0, duration_s=10.0).stages(1)
    assert [session.start_s for session in one.sessions] == [0.0, 2.0, 5.0]
    assert [session.start_s for session in two.sessions] == [0.5, 10.0]


def test_nothing_to_scale_is_the_workload_itself() -> None:
    plain = TwoStages()
    assert scaled(plain) is plain


def test_rates_that_are_unknown_stay_so() -> None:
    (stage,) = scaled(workload("burst", None), speed=2.0).stages(1)
    assert stage.rate is None


@pytest.mark.parametrize(("speed", "duration_s"), [(0.0, None), (-1.0, None), (1.0, 0.0), (1.0, -3.0)])
def test_no_speed_and_no_duration_are_refused(speed: float, duration_s: float | None) -> None:
    with pytest.raises(ConfigError, match="must be above 0"):
        scaled(TwoStages(), speed, duration_s)
