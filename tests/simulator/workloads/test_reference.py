from collections import Counter

from simulator.workloads.made import shared_blocks, shared_tokens
from warmroute.simulator.workload import Stage
from warmroute.simulator.workloads.reference import REFERENCE, REFERENCE_37, REFERENCE_2025

STAGES = list(REFERENCE.stages(seed=1))


def prompts(stage: Stage) -> list[bytes]:
    return [session.turns[0].prompt.ids().tobytes() for session in stage.sessions]


def test_the_ladder_is_the_published_one() -> None:
    assert [len(stage.sessions) for stage in STAGES] == [
        *(750, 60, 200, 300, 760, 748, 750, 750, 735),
        *(1520, 1548, 1518, 1470, 1508, 1485, 1482, 1500),
    ]
    assert [stage.rate for stage in STAGES] == [15, 3, 10, 15, 20, 22, 25, 30, 35, 40, 43, 46, 49, 52, 55, 57, 60]
    assert [stage.counted for stage in STAGES] == [False] + [True] * 16
    assert {stage.pause_s for stage in STAGES} == {1.0}


def test_every_stage_begins_with_the_same_prompt_and_goes_round() -> None:
    warm_up, third, ninth = prompts(STAGES[0]), prompts(STAGES[2]), prompts(STAGES[9])
    assert len(set(warm_up)) == 750
    assert third == warm_up[:200]
    assert ninth == warm_up + warm_up + warm_up[:20]


def test_the_prompts_are_150_prefixes_with_5_questions_each_and_shuffled() -> None:
    warm_up = [session.turns[0].prompt for session in STAGES[0].sessions]
    prefixes = Counter(prompt.ids()[:6320].tobytes() for prompt in warm_up)
    assert sorted(prefixes.values()) == [5] * 150
    first = warm_up[0].ids()[:6320]
    mates = [prompt for prompt in warm_up if prompt.ids()[:6320] == first]
    assert [shared_tokens(mates[0], mate) for mate in mates[1:]] == [6320] * 4
    # 6,320 tokens are 98 blocks of 64 and a part.
    assert shared_blocks(mates[0], mates[1]) == 98
    positions = [place for place, prompt in enumerate(warm_up) if prompt.ids()[:6320] == first]
    assert positions[-1] - positions[0] > 5, "not in the order in which they were made"


def test_lengths_are_the_counted_ones() -> None:
    some = [session.turns[0] for stage in STAGES[:3] for session in stage.sessions]
    assert {(len(turn.prompt), len(turn.answer), turn.max_tokens) for turn in some} == {(7584, 937, 1000)}


def test_no_two_answers_are_the_same() -> None:
    answers = [session.turns[0].answer.ids().tobytes() for stage in STAGES[:6] for session in stage.sessions]
    assert len(set(answers)) == len(answers)


def test_nobody_names_a_session_and_nothing_depends_on_anything() -> None:
    for session in STAGES[4].sessions:
        assert session.name is None
        assert [(turn.after, turn.wait_s) for turn in session.turns] == [(None, 0.0)]


def test_requests_of_a_stage_come_within_its_time_or_about() -> None:
    for stage, (_, duration_s) in zip(STAGES, REFERENCE.rungs, strict=True):
        starts = [session.start_s for session in stage.sessions]
        assert starts == sorted(starts)
        assert 0.7 * duration_s < starts[-1] < 1.3 * duration_s


def test_another_seed_gives_other_prompts_times_and_order() -> None:
    other = next(iter(REFERENCE.stages(seed=2)))
    assert not set(prompts(other)) & set(prompts(STAGES[0]))
    assert [session.start_s for session in other.sessions] != [session.start_s for session in STAGES[0].sessions]


def test_the_fleets_are_the_published_ones() -> None:
    assert [pod.capacity_tokens // 1000 for pod in REFERENCE.fleet.engines] == [340] * 8
    assert [pod.capacity_tokens for pod in REFERENCE_2025.fleet.engines] == [307_328] * 8
    assert [pod.capacity_tokens for pod in REFERENCE_37.fleet.engines] == [461_376] * 4
    assert {pod.block_size for pod in REFERENCE.fleet.engines} == {64}


def test_the_run_at_37_percent() -> None:
    stages = list(REFERENCE_37.stages(seed=1))
    assert [len(stage.sessions) for stage in stages] == [270, 630, 720, 600, 720, 720, 700, 720, 750, 1000]
    assert [stage.sessions[-1].start_s for stage in stages] == [30, 210, 180, 120, 120, 90, 70, 60, 50, 50]
    assert len(set(prompts(stages[0]))) == 83 * 3
