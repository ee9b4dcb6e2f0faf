import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simulator.workloads.made import shared_blocks, shared_tokens, turns
from warmroute.errors import ConfigError
from warmroute.simulator.workload import Session
from warmroute.simulator.workloads.claude_code import CodingSessions
from warmroute.simulator.workloads.coding_sessions import Limits, RecordedSession, read_coding_sessions

ALL = Limits(session_s=1e9, context_tokens=10**9)


def request(t: float, prompt: int, answer: int, keep: int, runs: list[tuple[int, int]], **more: Any) -> dict[str, Any]:
    return {"t": t, "in": prompt, "out": answer, "keep": keep, "runs": runs, **more}


def session(name: str, requests: list[dict[str, Any]], tools: int = 100, system: int = 60) -> dict[str, Any]:
    sizes = {"block_size": 64, "tool_tokens": tools, "system_tokens": system}
    return {"id": name, "models": ["some"], **sizes, "requests": requests}


# Three turns of the main agent: the second continues the first with its answer, the third has lost all but 5 blocks.
# Beside them a sub-agent with the same first 2 blocks; and a second one that comes after the second main turn.
MAIN = session(
    "main",
    [
        request(0.0, 650, 40, 0, [(1, 10)], api=3.0, think=0.0),
        request(7.0, 330, 5, 0, [(1, 2), (30, 3)], api=2.0, think=0.0, agent="first"),
        request(9.0, 900, 30, 10, [(11, 4)], api=4.0, think=6.0),
        request(12.0, 400, 0, 5, [(33, 1)], api=1.0, think=3.0, agent="first"),
        request(15.5, 200, 9, 0, [(40, 3)], api=1.0, think=0.0, agent="second"),
        request(20.0, 700, 60, 5, [(50, 5)], think=7.0),
        request(31.0, 1200, 60, 10, [(60, 8)]),
    ],
)


def write(path: Path, *sessions: dict[str, Any]) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps(each) + "\n" for each in sessions).encode()))
    return path


def read(tmp_path: Path, *sessions: dict[str, Any]) -> list[RecordedSession]:
    return read_coding_sessions(write(tmp_path / "sessions.jsonl.gz", *sessions))


def played(tmp_path: Path, *sessions: dict[str, Any], limits: Limits = ALL, seed: int = 1) -> dict[str, Session]:
    """Each of the given sessions, at least once."""
    traffic = CodingSessions(read(tmp_path, *sessions), limits, rate=1.0, duration_s=20.0)
    found = dict[str, Session]()
    for each in traffic.sessions(seed):
        assert each.name is not None
        found.setdefault(each.name.rsplit("-", 1)[0], each)
    return found


def test_a_turn_comes_after_the_one_before_it_of_its_agent(tmp_path: Path) -> None:
    main = played(tmp_path, MAIN)["main"].turns
    assert [turn.after for turn in main] == [None, 0, 0, 1, 2, 2, 5]


def test_pauses_are_those_of_people_and_tools(tmp_path: Path) -> None:
    main = played(tmp_path, MAIN)["main"].turns
    # Recorded pauses; for new sub-agents what lay between the end of the main turn before (3 s, 13 s) and their start;
    # for the last turn what lay between the starts, less a usual answer of 6.1 s, as the one before has no time.
    assert [turn.wait_s for turn in main] == pytest.approx([0.0, 4.0, 6.0, 3.0, 2.5, 7.0, 4.9])


def test_a_pause_that_counts_from_an_earlier_answer_is_not_taken(tmp_path: Path) -> None:
    """Behind answers whose time is not known the file's pauses go on counting from the last known one."""
    counting = session(
        "counting",
        [
            request(0.0, 64, 10, 0, [(1, 1)], api=4.0, think=0.0),
            request(12.0, 128, 10, 1, [(2, 1)], think=8.0),
            request(24.0, 192, 10, 2, [(3, 1)], think=20.0),
            request(26.0, 256, 10, 3, [(4, 1)], think=22.0, api=1.0),
            request(30.0, 320, 10, 4, [(5, 1)], think=3.0, api=1.0),
        ],
    )
    waits = [turn.wait_s for turn in played(tmp_path, counting)["counting"].turns]
    assert waits == pytest.approx([0.0, 8.0, 5.9, 0.0, 3.0])


def test_lengths_are_the_recorded_ones(tmp_path: Path) -> None:
    main = played(tmp_path, MAIN)["main"].turns
    assert [len(turn.prompt) for turn in main] == [650, 330, 900, 400, 200, 700, 1200]
    # Nobody answers with nothing.
    assert [len(turn.answer) for turn in main] == [40, 5, 30, 1, 9, 60, 60]
    assert [len(turn.prompt.ids()) for turn in main] == [650, 330, 900, 400, 200, 700, 1200]
    assert [len(turn.answer.ids()) for turn in main] == [40, 5, 30, 1, 9, 60, 60]


def test_block_ids_say_what_is_shared(tmp_path: Path) -> None:
    first, agent, second, agent_again, other_agent, third, last = (
        turn.prompt for turn in played(tmp_path, MAIN)["main"].turns
    )
    assert shared_blocks(first, second) == 10
    assert shared_blocks(first, agent) == 2
    assert shared_tokens(first, agent) == 128
    assert shared_blocks(agent, agent_again) == 5
    assert shared_tokens(first, other_agent) == 0
    assert shared_blocks(second, third) == 5
    assert shared_blocks(third, last) == 10


def test_a_prompt_that_keeps_everything_goes_on_with_the_answer(tmp_path: Path) -> None:
    main = played(tmp_path, MAIN)["main"].turns
    said = main[0].prompt.ids() + main[0].answer.ids()
    assert main[2].prompt.ids()[: len(said)] == said
    # The third has lost some: its answer is a text of its own, and so is what comes before it.
    said = main[2].prompt.ids() + main[2].answer.ids()
    assert shared_tokens(main[2].prompt, main[5].prompt) == 320
    assert main[5].prompt.ids()[320:700] != said[320:700]


def test_an_id_that_comes_again_is_the_same_text(tmp_path: Path) -> None:
    again = session(
        "again",
        [
            request(0.0, 640, 10, 0, [(1, 10)]),
            request(1.0, 640, 10, 2, [(20, 8)]),
            # All at once: the middle of the first run, the end of the second, and ids never seen between known ones.
            request(2.0, 640, 10, 0, [(5, 3), (18, 4), (26, 3)]),
        ],
        tools=0,
        system=0,
    )
    first, second, third = (turn.prompt.ids() for turn in played(tmp_path, again)["again"].turns)
    assert third[:192] == first[256:448]
    assert third[320:448] == second[128:256]
    assert third[448:576] == second[512:640]
    assert not set(third[192:320]) & (set(first) | set(second))


def test_equal_tools_and_system_prompts_are_shared_by_sessions(tmp_path: Path) -> None:
    requests = [request(0.0, 650, 40, 0, [(1, 10)])]
    sessions = played(
        tmp_path,
        session("one", requests, tools=200, system=100),
        session("other", [request(0.0, 700, 40, 0, [(1, 10)])], tools=200, system=100),
        session("unlike", [request(0.0, 710, 40, 0, [(1, 11)])], tools=300, system=0),
    )
    one, other, unlike = (sessions[name].turns[0].prompt for name in ("one", "other", "unlike"))
    # 300 tokens are 4 whole blocks.
    assert shared_tokens(one, other) == 256
    assert shared_blocks(one, other) == 4
    assert shared_tokens(one, unlike) == 0


def test_a_shared_opening_may_be_in_several_runs(tmp_path: Path) -> None:
    whole = session("whole", [request(0.0, 640, 1, 0, [(1, 10)])], tools=320, system=0)
    parts = session("parts", [request(0.0, 650, 1, 0, [(1, 2), (70, 8)])], tools=320, system=0)
    sessions = played(tmp_path, whole, parts)
    assert shared_tokens(sessions["whole"].turns[0].prompt, sessions["parts"].turns[0].prompt) == 320


def test_a_session_played_twice_shares_only_its_opening(tmp_path: Path) -> None:
    traffic = CodingSessions(read(tmp_path, MAIN), ALL, rate=1.0, duration_s=20.0)
    one, other, *_ = traffic.sessions(1)
    assert one.name != other.name
    # 160 tokens of tools and system prompt are 2 whole blocks.
    assert shared_tokens(one.turns[0].prompt, other.turns[0].prompt) == 128


def test_copies_are_dropped(tmp_path: Path) -> None:
    twin = dict(MAIN, id="twin")
    assert [each.id for each in read(tmp_path, MAIN, twin, session("x", [request(0, 70, 1, 0, [(1, 1)])]))] == [
        "main",
        "x",
    ]


def test_what_is_late_or_too_long_ends_a_session(tmp_path: Path) -> None:
    early = played(tmp_path, MAIN, limits=Limits(session_s=15.0, context_tokens=10**9))["main"]
    assert len(early.turns) == 4
    short = played(tmp_path, MAIN, limits=Limits(session_s=1e9, context_tokens=929))["main"]
    assert len(short.turns) == 2
    # Its answer belonged to a turn that is not played, so it is a text of its own.
    assert [len(turn.answer) for turn in short.turns] == [40, 5]
    whole = session("whole", [request(0.0, 64, 1, 0, [(1, 1)])])
    assert list(played(tmp_path, MAIN, whole, limits=Limits(1e9, context_tokens=600))) == ["whole"]


def test_sessions_begin_at_a_rate_in_an_order_of_the_seed(tmp_path: Path) -> None:
    many = [session(f"s{number}", [request(0.0, 64 + number, 1, 0, [(1, 1)])]) for number in range(40)]
    traffic = CodingSessions(read(tmp_path, *many), ALL, rate=0.5, duration_s=60.0)
    runs = [[(each.name, each.start_s) for each in traffic.sessions(seed)] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert 15 < len(runs[0]) < 50
    names = [str(name) for name, _ in runs[0]]
    assert len(set(names)) == len(names)
    assert names != sorted(names)
    assert all(0 < start_s < 60 for _, start_s in runs[0])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": "x"}, "line 2: .*block_size"),
        (session("x", [request(0.0, 640, 1, 0, [(1, 9)])]), "line 2: request 0 has 640 tokens, but 9 full blocks"),
        (session("x", [request(0.0, 640, 1, 3, [(1, 11)])]), "line 2: request 0 has 640 tokens, but 11 full blocks"),
        (session("x", [request(0.0, 0, 1, 0, [])]), "line 2: request 0"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, MAIN, wrong)


def test_turns_are_made_in_the_order_in_which_they_were_sent(tmp_path: Path) -> None:
    """What a turn depends on stands before it."""
    for turn_list in (each.turns for each in played(tmp_path, MAIN).values()):
        assert all(turn.after is None or turn.after < place for place, turn in enumerate(turn_list))
    assert len(turns(played(tmp_path, MAIN).values())) == 7
