"""A log as a workload."""

import subprocess
import sys
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from warmroute.block import Namespace, hash_blocks
from warmroute.engine_model import EngineOptions
from warmroute.openai_api import TextContent
from warmroute.request_log import BlockedRequest, Blocking
from warmroute.request_log.request import LoggedRequest, ToldPrompt
from warmroute.simulator.logs import LoggedWorkload, LogSource, reuse_curve
from warmroute.simulator.logs.continuations import successors
from warmroute.simulator.logs.logged_workload import BlockTokens
from warmroute.simulator.logs.prepared import LONGEST_PAUSE_S, UNKNOWN_ANSWER, prepared
from warmroute.simulator.workload import FleetPlan, Stage

ENGINE = EngineOptions()


def request(at_s: float, tokens: int = 40, first: int = 1, **more: object) -> BlockedRequest:
    blocks = array("Q", [first * 1_000 + at for at in range(-(-tokens // 16))])
    return replace(BlockedRequest(at_s, tokens, blocks, 16, answer_tokens=5), **more)  # type: ignore[arg-type]


def stage_of(*requests: BlockedRequest, closed_loop: bool = False) -> Stage:
    (stage,) = LoggedWorkload("log", "", FleetPlan((ENGINE,)), requests, closed_loop).stages(0)
    return stage


@pytest.mark.parametrize("size", [1, 3, 16, 512])
def test_tokens_are_equal_where_blocks_are(size: int) -> None:
    one, other = array("Q", [2**63 + 5, 7, 9]), array("Q", [2**63 + 5, 7, 10])
    ids = [BlockTokens(blocks, size, 3 * size, 0).ids() for blocks in (one, other)]
    assert [len(each) for each in ids] == [3 * size] * 2
    assert ids[0][: 2 * size] == ids[1][: 2 * size]
    assert ids[0][2 * size :] != ids[1][2 * size :]
    assert BlockTokens(one, size, 2 * size + 1, 0).ids() == ids[0][: 2 * size + 1]


def test_what_is_not_known_is_like_nothing_else() -> None:
    blocks = array("Q", [1])
    one, other = BlockTokens(blocks, 16, 40, 1).ids(), BlockTokens(blocks, 16, 40, 2).ids()
    assert one[:16] == other[:16]
    assert one[16:] != other[16:]


def test_blocks_of_the_log_are_blocks_of_larger_engines() -> None:
    blocks = array("Q", range(100, 108))
    other = array("Q", [*range(100, 104), *range(900, 904)])
    hashes = [hash_blocks(BlockTokens(each, 16, 128, 0).ids(), 64, Namespace()).to_list() for each in (blocks, other)]
    assert hashes[0][0] == hashes[1][0]
    assert hashes[0][1] != hashes[1][1]


def test_open_loop_is_the_log_s_times() -> None:
    stage = stage_of(request(100.0, session="a"), request(100.5), request(103.0, session="a"))
    assert [session.start_s for session in stage.sessions] == [0.0, 0.5, 3.0]
    assert [session.name for session in stage.sessions] == ["a", None, "a"]
    assert all(len(session.turns) == 1 for session in stage.sessions)


def test_closed_loop_keeps_the_pauses() -> None:
    stage = stage_of(
        request(100.0, session="a", ended_at_s=104.0),
        request(101.0),
        request(105.0, session="a", ended_at_s=109.0),
        request(106.0, session="a", ended_at_s=107.0),
        request(110.0, session="a"),
        closed_loop=True,
    )
    assert [session.start_s for session in stage.sessions] == [0.0, 1.0]
    turns = stage.sessions[0].turns
    assert [(turn.after, turn.wait_s) for turn in turns] == [(None, 0.0), (0, 1.0), (0, 2.0), (1, 1.0)]


def test_turns_side_by_side_from_the_start() -> None:
    stage = stage_of(
        request(1.0, session="a", ended_at_s=9.0), request(3.0, session="a", ended_at_s=5.0), closed_loop=True
    )
    assert [(turn.after, turn.wait_s) for turn in stage.sessions[0].turns] == [(None, 0.0), (None, 2.0)]


def test_answers_that_are_not_logged() -> None:
    log = prepared(
        [
            request(0.0, answer_tokens=100),
            request(1.0, answer_tokens=50),
            request(2.0, answer_tokens=None, max_tokens=30),
            request(3.0, answer_tokens=None),
            request(4.0, answer_tokens=None, max_tokens=10**6),
        ],
        1_000,
    )
    assert log.answer_tokens == [100, 50, 30, 75, 960]
    assert (log.answers_by_limit, log.answers_by_mean) == (2, 1)
    assert prepared([request(0.0, answer_tokens=None)], 1_000).answer_tokens == [UNKNOWN_ANSWER]


def test_an_answer_that_cannot_be_true_is_no_measure_for_others() -> None:
    log = prepared([request(0.0, answer_tokens=10**9), request(1.0, answer_tokens=None)], 1_000)
    assert log.too_long == 1
    assert log.answer_tokens == [UNKNOWN_ANSWER]


def test_what_does_not_fit_is_left_out_and_long_pauses_are_cut() -> None:
    night = 8 * 3_600.0
    log = prepared([request(0.0), request(10.0, tokens=5_000), request(night, ended_at_s=night + 2)], 1_000)
    assert log.too_long == 1
    assert [each.at_s for each in log.requests] == [0.0, LONGEST_PAUSE_S]
    assert log.requests[1].ended_at_s == LONGEST_PAUSE_S + 2
    assert log.cut_s == night - LONGEST_PAUSE_S


def test_another_process_gets_the_same_workload(tmp_path: Path) -> None:
    log = prepared([request(at, session=f"s{at % 2:.0f}", ended_at_s=at + 0.5) for at in (0.0, 1.0, 2.0, 3.25)], 1_000)
    log.write(tmp_path / "log")
    source = LogSource("log", tmp_path / "log", ENGINE, closed_loop=True, speed=2.0)
    (stage,) = source.open().stages(0)
    told = [(session.start_s, session.turns[-1].wait_s, session.turns[0].prompt.ids()[0]) for session in stage.sessions]
    script = f"""
from pathlib import Path
from warmroute.engine_model import EngineOptions
from warmroute.simulator.logs import LogSource
(stage,) = LogSource("log", Path({str(tmp_path / "log")!r}), EngineOptions(), True, 2.0).open().stages(0)
print([(each.start_s, each.turns[-1].wait_s, each.turns[0].prompt.ids()[0]) for each in stage.sessions])
"""
    made = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env={"PYTHONHASHSEED": "7"}
    )
    assert made.stdout.strip() == str(told)
    assert [start for start, _, _ in told] == [0.0, 0.5]


def turn_of(session: str, at_s: float, texts: list[str], answer: int) -> BlockedRequest:
    told = ToldPrompt(TextContent("".join(texts)))
    return Blocking().blocked(LoggedRequest(at_s, told, session=session, answer_tokens=answer))


def test_an_answer_that_comes_back_is_the_one_that_was_given() -> None:
    """Of the second prompt all full blocks up to the answer's end are in a cache that holds the first exchange."""
    first, answer, more = "question " * 30, "answer is " * 40, "and then " * 30
    requests = [turn_of("s", 0.0, [first], 100), turn_of("s", 9.0, [first, answer, more], 5)]
    assert successors(requests) == [1, None]
    one, two = (session.turns[0] for session in stage_of(*requests).sessions)
    exchange = one.prompt.ids() + one.answer.ids()
    assert (len(one.prompt), len(one.answer)) == (requests[0].prompt_tokens, 100)
    assert exchange == two.prompt.ids()[: len(exchange)]
    curve = reuse_curve(requests, [100, 5])
    assert curve.reusable_tokens == len(exchange) // 16 * 16
    assert curve.prompt_tokens == curve.reusable_tokens + curve.different_tokens


def test_an_answer_that_is_longer_than_what_comes_back() -> None:
    first = "question " * 30
    requests = [turn_of("s", 0.0, [first], 10_000), turn_of("s", 9.0, [first, "so " * 40], 5)]
    one, two = (session.turns[0] for session in stage_of(*requests).sessions)
    assert len(one.answer) == len(one.answer.ids()) == 10_000
    assert reuse_curve(requests, [10_000, 5]).reusable_tokens == len(two.prompt) // 16 * 16


def test_only_what_the_log_puts_into_one_session_goes_on() -> None:
    first = "question " * 30
    one, two = turn_of("s", 0.0, [first], 10), turn_of("t", 9.0, [first, "and more " * 20], 5)
    assert successors([one, two]) == [None, None]
    assert successors([replace(one, session=None), replace(two, session=None)]) == [None, None]
    assert successors([one, replace(one, at_s=1.0)]) == [None, None]


def test_branches_go_on_from_the_nearest_turn() -> None:
    texts = ["first " * 30, "second " * 30, "third " * 30]
    requests = [turn_of("s", float(end), texts[:end], 5) for end in (1, 2, 3)]
    branch = turn_of("s", 4.0, [texts[0], "aside " * 30], 5)
    assert successors([*requests, branch]) == [1, 2, None, None]
    assert successors([requests[0], branch, requests[1]]) == [1, None, None]
