import random
from collections import Counter
from itertools import pairwise
from statistics import fmean, median

import pytest

from simulator.workloads.made import only_stage, shared_blocks, shared_tokens, turns
from warmroute.simulator.workload import Session, WorkerAdded, WorkerLost
from warmroute.simulator.workloads import WORKLOADS, workload
from warmroute.simulator.workloads.agent_loops import AGENT_LOOPS
from warmroute.simulator.workloads.burst import BURST, Bursts
from warmroute.simulator.workloads.cold_giants import COLD_GIANTS
from warmroute.simulator.workloads.event_path import EVENTS_LATE, EVENTS_LOSSY
from warmroute.simulator.workloads.fleet_changes import MIXED_HARDWARE, WORKER_ADDED, WORKER_RESTART
from warmroute.simulator.workloads.hot_prefix import HOT_PREFIX
from warmroute.simulator.workloads.lengths import Lengths
from warmroute.simulator.workloads.multi_turn import MULTI_TURN
from warmroute.simulator.workloads.single_stage import SingleStage

SYNTHETIC = [
    *("hot-prefix", "multi-turn", "agent-loops", "cold-giants", "burst", "single-turn", "churn"),
    *("mixed-hardware", "worker-restart", "worker-added", "events-late", "events-lossy"),
]


def beginnings(sessions: list[Session], tokens: int = 64) -> Counter[bytes]:
    """How often each first block is asked for."""
    return Counter(turn.prompt.ids()[:tokens].tobytes() for turn in turns(sessions))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_each_is_of_a_size_that_a_comparison_can_afford(name: str) -> None:
    sessions = only_stage(workload(name, None))
    asked = turns(sessions)
    assert 2000 <= len(asked) <= 3500
    starts = [session.start_s for session in sessions]
    assert starts == sorted(starts)
    assert starts[-1] <= 180
    longest = min(pod.context_tokens for pod in workload(name, None).fleet.engines)
    assert max(len(turn.prompt) + len(turn.answer) for turn in asked) <= longest
    assert all(len(turn.prompt) >= 1 and len(turn.answer) >= 1 for turn in asked)


def test_one_prefix_is_hot_and_the_others_follow_zipf() -> None:
    sessions = list(only_stage(HOT_PREFIX))
    asked = [count for _, count in beginnings(sessions).most_common()]
    assert asked[0] / len(sessions) == pytest.approx(0.36, abs=0.03)
    assert sum(asked[:10]) / len(sessions) == pytest.approx(0.76, abs=0.03)
    assert 120 < len(asked) <= 200


def test_requests_with_one_prefix_share_it_and_no_more() -> None:
    sessions = list(only_stage(HOT_PREFIX))
    (hottest, _), *_ = beginnings(sessions).most_common(1)
    prompts = [turn.prompt for turn in turns(sessions) if turn.prompt.ids()[:64].tobytes() == hottest]
    shared = {shared_tokens(prompts[0], prompt) for prompt in prompts[1:20]}
    assert len(shared) == 1
    assert 1000 <= shared.pop() <= 16_000


def test_conversations_grow_by_the_answer_and_a_message() -> None:
    for session in list(only_stage(MULTI_TURN))[:20]:
        assert session.name is not None
        assert 5 <= len(session.turns) <= 15
        assert [turn.after for turn in session.turns] == [None, *range(len(session.turns) - 1)]
        for turn, following in pairwise(session.turns):
            said = turn.prompt.ids() + turn.answer.ids()
            assert following.prompt.ids()[: len(said)] == said
            assert 20 <= len(following.prompt) - len(said) <= 3000
            assert 0 < following.wait_s <= 12.0


def test_loops_need_more_room_than_there_is() -> None:
    sessions = only_stage(AGENT_LOOPS)
    waits = [turn.wait_s for turn in turns(sessions) if turn.after is not None]
    assert 0.4 < fmean(waits) < 0.6
    at_their_end = sum(len(session.turns[-1].prompt) for session in sessions)
    assert at_their_end > 2 * sum(pod.capacity_tokens for pod in AGENT_LOOPS.fleet.engines)


def test_conversations_with_one_application_begin_alike() -> None:
    sessions = list(only_stage(MULTI_TURN))
    first = [session.turns[0].prompt for session in sessions]
    openings = Counter(prompt.ids()[:64].tobytes() for prompt in first)
    assert len(openings) == 12
    alike = [prompt for prompt in first if prompt.ids()[:64] == first[0].ids()[:64]]
    assert min(shared_blocks(alike[0], prompt) for prompt in alike[1:]) >= 500 // 64


def test_giants_are_few_cold_and_come_when_the_others_are_warm() -> None:
    sessions = list(only_stage(COLD_GIANTS))
    giants = [session for session in sessions if len(session.turns[0].prompt) >= 16_000]
    assert 12 <= len(giants) <= 40
    assert min(session.start_s for session in giants) >= 10.0
    assert max(beginnings(giants).values()) == 1
    small = [session for session in sessions if len(session.turns[0].prompt) < 16_000]
    assert len(beginnings(small)) == 40
    assert median(len(session.turns[0].prompt) for session in small) < 3000


def test_a_burst_is_one_prompt_at_once() -> None:
    assert isinstance(BURST.traffic, Bursts)
    bursts = Counter(turn.prompt.ids().tobytes() for turn in turns(only_stage(BURST)) if len(turn.prompt) == 8000)
    assert list(bursts.values()) == [80] * 6
    times = [session.start_s for session in only_stage(BURST) if len(session.turns[0].prompt) == 8000]
    for burst in range(6):
        its = times[80 * burst : 80 * burst + 80]
        assert 15.0 * (burst + 1) <= its[0]
        assert its[-1] <= 15.0 * (burst + 1) + 0.1
    answers = {turn.answer.ids().tobytes() for turn in turns(only_stage(BURST))}
    assert len(answers) == len(only_stage(BURST))


def test_unrelated_requests_share_nothing() -> None:
    asked = beginnings(list(only_stage(workload("single-turn", None))), tokens=16)
    assert max(asked.values()) == 1


def test_the_working_set_drifts() -> None:
    sessions = list(only_stage(workload("churn", None)))
    seen: dict[bytes, list[float]] = {}
    for session in sessions:
        seen.setdefault(session.turns[0].prompt.ids()[:64].tobytes(), []).append(session.start_s)
    assert all(times[-1] - times[0] <= 30.0 for times in seen.values())
    assert len(seen) > 400, "new ones come"
    early = {prefix for prefix, times in seen.items() if times[0] < 5.0}
    assert all(seen[prefix][-1] < 35.0 for prefix in early), "and old ones die"
    asked = [len(times) for times in seen.values()]
    assert fmean(asked) > 4


@pytest.mark.parametrize(
    ("usual", "circumstances"),
    [(MULTI_TURN, (MIXED_HARDWARE, WORKER_RESTART, WORKER_ADDED)), (AGENT_LOOPS, (EVENTS_LATE, EVENTS_LOSSY))],
)
def test_circumstances_differ_and_the_traffic_does_not(usual: SingleStage, circumstances: list[SingleStage]) -> None:
    prompts = [turn.prompt.ids().tobytes() for turn in turns(only_stage(usual))[::7]]
    for circumstance in circumstances:
        assert [turn.prompt.ids().tobytes() for turn in turns(only_stage(circumstance))[::7]] == prompts


def test_the_circumstances() -> None:
    assert {pod.prefill_tokens_per_s for pod in MIXED_HARDWARE.fleet.engines} == {23_200.0, 7_300.0}
    assert WORKER_RESTART.fleet.happenings == (WorkerLost(40.0, 0, for_s=30.0),)
    (added,) = WORKER_ADDED.fleet.happenings
    assert isinstance(added, WorkerAdded)
    assert (added.at_s, added.engine) == (35.0, WORKER_ADDED.fleet.engines[0])
    assert AGENT_LOOPS.fleet.engines == EVENTS_LATE.fleet.engines == EVENTS_LOSSY.fleet.engines
    assert EVENTS_LATE.fleet.event_path.delay_s == 0.5
    assert EVENTS_LOSSY.fleet.event_path.loss == 0.05


def test_every_synthetic_one_is_listed() -> None:
    assert set(SYNTHETIC) <= {listed.name for listed in WORKLOADS}


def test_lengths_have_a_median_and_bounds() -> None:
    rng = random.Random(1)
    drawn = [Lengths(500, 0.6, 100, 1500).draw(rng) for _ in range(4000)]
    assert median(drawn) == pytest.approx(500, rel=0.05)
    assert (min(drawn), max(drawn)) == (100, 1500)
    assert fmean(drawn) > 530, "skewed to the right"
