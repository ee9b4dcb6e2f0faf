from collections.abc import Iterator

import pytest

from simulator.workloads.made import text
from warmroute.engine_model import EngineOptions
from warmroute.simulator.tokens import Ids
from warmroute.simulator.workload import FleetPlan, Session, Stage, Turn
from warmroute.simulator.workloads import Reuse, reuse, workload
from warmroute.simulator.workloads.single_stage import SingleStage

FLEET = FleetPlan((EngineOptions(block_size=4, num_blocks=1000),))


def turn(prompt_tokens: int, start: int = 0, answer: int = 1, after: int | None = None, wait_s: float = 0.0) -> Turn:
    return Turn(Ids(text(prompt_tokens, start)), Ids(text(answer, 10_000 + start)), after, wait_s)


class Given:
    """The sessions that it is given."""

    def __init__(self, *sessions: Session) -> None:
        self._sessions = sessions

    def sessions(self, seed: int) -> Iterator[Session]:
        yield from self._sessions


def counted(*sessions: Session) -> Reuse:
    return reuse(SingleStage("given", "", FLEET, Given(*sessions)), seed=1)


def test_only_whole_blocks_of_what_came_before_count() -> None:
    found = counted(Session(0.0, [turn(10)]), Session(1.0, [turn(19)]), Session(2.0, [turn(19)]))
    # 10 tokens are 2 blocks of 4; then all 4 blocks of 19.
    assert found == Reuse(sessions=3, requests=3, prompt_tokens=48, answer_tokens=3, cached_tokens=8 + 16)
    assert found.cached_share == pytest.approx(24 / 48)


def test_the_order_is_that_of_the_times_pauses_included() -> None:
    later = Session(0.0, [turn(4, 500), turn(20, after=0, wait_s=9.0)])
    assert counted(later, Session(8.0, [turn(20)])).cached_tokens == 20
    assert counted(later, Session(8.0, [turn(20)])) == counted(later, Session(10.0, [turn(20)]))
    first, second = Session(5.0, [turn(40)]), Session(3.0, [turn(8)])
    assert counted(second, first).cached_tokens == 8


def test_answers_are_kept() -> None:
    """As engines do: the next turn's prompt finds them."""
    prompt, answer = text(8), text(8, 100)
    grown = Turn(Ids(prompt + answer + text(4, 200)), Ids(text(1)), after=0)
    found = counted(Session(0.0, [Turn(Ids(prompt), Ids(answer)), grown]))
    assert found.cached_tokens == 16


def test_a_warm_up_is_cached_but_not_counted() -> None:
    class Warmed:
        name = about = "warmed"
        fleet = FLEET

        def stages(self, seed: int) -> Iterator[Stage]:
            yield Stage("warm-up", [Session(0.0, [turn(8)])], counted=False)
            yield Stage("load", [Session(0.0, [turn(8)])])

    assert reuse(Warmed(), 1) == Reuse(1, 1, 8, 1, 8)


def test_nothing_and_everything() -> None:
    assert Reuse().cached_share == 0.0
    assert reuse(workload("single-turn", None), seed=1).cached_tokens == 0
    ladder = reuse(workload("reference", None), seed=1)
    # Full blocks of a prompt of 7,584 tokens, all of which the warm-up has brought in.
    assert ladder.requests == 16_334
    assert ladder.cached_tokens == 16_334 * (7584 // 64) * 64
