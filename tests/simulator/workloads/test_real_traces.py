"""The recorded traces themselves, against the figures that are known of them."""

from collections import Counter
from statistics import fmean

import pytest

from simulator.workloads.made import TRACES, needs_traces, only_stage, turns
from warmroute.simulator.workload import FleetPlan, Workload
from warmroute.simulator.workloads import WORKLOADS, reuse, workload
from warmroute.simulator.workloads.claude_code import CLAUDE_CODE, CodingSessions
from warmroute.simulator.workloads.coding_sessions import Limits, RecordedSession, read_coding_sessions
from warmroute.simulator.workloads.mooncake import MOONCAKE_CONVERSATION, MOONCAKE_SYNTHETIC, conversation, synthetic
from warmroute.simulator.workloads.pods import GPT_OSS_120B_H100_TP2
from warmroute.simulator.workloads.single_stage import SingleStage, Traffic

pytestmark = needs_traces

MADE_OF = CLAUDE_CODE.file
RECORDED = ["mooncake-conversation", "mooncake-synthetic", "claude-code", "azure-code", "azure-conversation"]


def put_on(traffic: Traffic) -> SingleStage:
    return SingleStage("whole", "", FleetPlan((GPT_OSS_120B_H100_TP2,)), traffic)


def blocks_seen_before(workload_of_512: Workload) -> float:
    """The README's figure: the share of tokens in the longest prefix of 512-token blocks that came before."""
    return reuse(workload_of_512, seed=1, block_size=512).cached_share


def test_mooncake_conversation_as_published() -> None:
    whole = put_on(conversation(TRACES / MOONCAKE_CONVERSATION.file, None, longest=10**6))
    asked = turns(only_stage(whole))
    assert len(asked) == 12_031
    assert fmean(len(turn.prompt) for turn in asked) == pytest.approx(12_035, abs=1)
    assert fmean(len(turn.answer) for turn in asked) == pytest.approx(343, abs=1)
    # 36.6 % of the blocks; a little less where blocks that are cut short do not count.
    assert blocks_seen_before(whole) == pytest.approx(0.374, abs=0.005)


def test_mooncake_conversation_is_spread_over_what_its_times_are_rounded_to() -> None:
    whole = conversation(TRACES / MOONCAKE_CONVERSATION.file, None, longest=10**6)
    starts = [session.start_s for session in whole.sessions(1)]
    assert len(set(starts)) > 12_000
    in_thirds = Counter(int(at % 3.0) for at in starts)
    assert [round(in_thirds[third] / len(starts), 1) for third in range(3)] == [0.3, 0.3, 0.3]


def test_mooncake_synthetic_as_published() -> None:
    whole = put_on(synthetic(TRACES / MOONCAKE_SYNTHETIC.file, None, longest=10**6))
    asked = turns(only_stage(whole))
    assert len(asked) == 3993
    assert fmean(len(turn.prompt) for turn in asked) == pytest.approx(15_325, abs=1)
    assert fmean(len(turn.answer) for turn in asked) == pytest.approx(149, abs=1)
    assert blocks_seen_before(whole) == pytest.approx(0.651, abs=0.01)


def test_coding_sessions_without_their_copies() -> None:
    recorded = read_coding_sessions(TRACES / MADE_OF)
    # 23 of 710 are 5 sets of the same session: 18 go.
    assert len(recorded) == 692
    assert sum(len(session.requests) for session in recorded) == 46_218


def rebuilt_ids(session: RecordedSession) -> list[list[int]]:
    """The block ids of each request, as the traces' README rebuilds them."""
    before = dict[str | None, list[int]]()
    rebuilt = list[list[int]]()
    for turn in session.requests:
        ids = before.get(turn.agent, [])[: turn.keep]
        for first, count in turn.runs:
            ids = ids + list(range(first, first + count))
        before[turn.agent] = ids
        rebuilt.append(ids)
    return rebuilt


def test_coding_sessions_say_equal_things_where_their_block_ids_are_equal() -> None:
    """Every id one block of tokens, and every block of tokens one id, whatever order they come in."""
    recorded = read_coding_sessions(TRACES / MADE_OF)[:12]
    limits = Limits(session_s=1e9, context_tokens=10**7)
    agents = 0
    for session in CodingSessions(recorded, limits, rate=1.0, duration_s=8.0).sessions(1):
        told = next(each for each in recorded if each.id == str(session.name).rsplit("-", 1)[0])
        agents += any(turn.agent for turn in told.requests[:25])
        blocks = dict[int, bytes]()
        for turn, ids in zip(session.turns[:25], rebuilt_ids(told), strict=False):
            said = turn.prompt.ids()
            for place, block_id in enumerate(ids):
                block = said[64 * place : 64 * place + 64].tobytes()
                assert blocks.setdefault(block_id, block) == block
        assert len(set(blocks.values())) == len(blocks)
    assert agents, "sub-agents were among them"


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_played_of_each_can_be_afforded_and_fits(name: str, seed: int) -> None:
    opened = workload(name, TRACES)
    sessions = only_stage(opened, seed)
    asked = turns(sessions)
    assert 700 <= len(asked) <= 4500
    assert max(len(turn.prompt) + len(turn.answer) for turn in asked) <= opened.fleet.engine(0).context_tokens
    assert min(len(turn.answer) for turn in asked) >= 1
    starts = [session.start_s for session in sessions]
    assert starts == sorted(starts)
    assert starts[0] >= 0.0
    assert starts[-1] <= 600.0


@pytest.mark.parametrize("name", ["azure-code", "azure-conversation"])
def test_azure_has_nothing_to_reuse(name: str) -> None:
    assert reuse(workload(name, TRACES), seed=1, block_size=16).cached_tokens == 0


def test_coding_sessions_can_reuse_nearly_everything() -> None:
    found = reuse(workload("claude-code", TRACES), seed=1)
    assert 0.9 < found.cached_share < 0.97
    assert found.prompt_tokens / found.requests > 50_000


def test_all_of_them_are_listed() -> None:
    assert set(RECORDED) <= {listed.name for listed in WORKLOADS}
