import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest

from simulator.workloads.made import only_stage, shared_tokens, turns
from warmroute.errors import ConfigError
from warmroute.simulator.workloads import workload
from warmroute.simulator.workloads.trace_file import BlockTrace, read_block_trace, trace_file
from warmroute.simulator.workloads.window import Window


def line(timestamp: float, prompt: int, answer: int, hash_ids: list[int | str]) -> str:
    fields = {"timestamp": timestamp, "input_length": prompt, "output_length": answer, "hash_ids": hash_ids}
    return json.dumps(fields) + "\n"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """The second prompt continues the first one behind its first block; the third is like neither."""
    path = tmp_path / "mine.jsonl"
    path.write_text(
        line(5000, 1000, 20, [1, 2]) + line(5400, 1536, 0, [1, 3, 4]) + "\n" + line(5200.5, 600, 7, ["a", "b"])
    )
    return path


def test_times_lengths_and_order(three: Path) -> None:
    sessions = only_stage(trace_file(three))
    assert [session.start_s for session in sessions] == pytest.approx([0.0, 0.2005, 0.4])
    assert [(len(turn.prompt), len(turn.answer)) for turn in turns(sessions)] == [(1000, 20), (600, 7), (1536, 1)]
    assert [len(turn.prompt.ids()) for turn in turns(sessions)] == [1000, 600, 1536]


def test_equal_ids_are_equal_tokens(three: Path) -> None:
    first, unlike, second = (turn.prompt for turn in turns(only_stage(trace_file(three))))
    assert shared_tokens(first, second) == 512
    assert shared_tokens(first, unlike) == 0


def test_a_last_block_that_is_cut_short_is_the_beginning_of_the_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(line(0, 700, 1, [1, 2]) + line(1, 1024, 1, [1, 2]))
    short, whole = (turn.prompt for turn in turns(only_stage(trace_file(path))))
    assert shared_tokens(short, whole) == 700


def test_what_has_no_id_is_like_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "full_blocks.jsonl"
    path.write_text(line(0, 150, 1, [1, 2]) + line(1, 150, 1, [1, 2]))
    one, other = (turn.prompt for turn in turns(only_stage(trace_file(path, block_tokens=64))))
    assert len(one) == len(other) == 150
    assert shared_tokens(one, other) == 128


def test_another_seed_gives_other_tokens_with_the_same_sharing(three: Path) -> None:
    first = [turn.prompt for turn in turns(only_stage(trace_file(three), seed=1))]
    other = [turn.prompt for turn in turns(only_stage(trace_file(three), seed=2))]
    assert shared_tokens(first[0], other[0]) == 0
    assert shared_tokens(other[0], other[2]) == 512


def test_a_packed_file_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "packed.jsonl.gz"
    path.write_bytes(gzip.compress(line(0, 10, 1, [1]).encode()))
    assert [len(turn.prompt) for turn in turns(only_stage(trace_file(path)))] == [10]


def test_the_fleet_has_room_for_the_longest_request(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text(line(0, 90_000, 500, list(range(176))))
    assert {pod.context_tokens for pod in trace_file(path).fleet.engines} == {90_500}
    path.write_text(line(0, 90, 500, [1]))
    assert {pod.context_tokens for pod in trace_file(path).fleet.engines} == {40_960}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('{"timestamp": 0, "input_length": 10', "line 2: "),
        ('{"timestamp": 0, "input_length": 10, "hash_ids": [1]}', "line 2: .*output_length"),
        ('{"timestamp": "now", "input_length": 10, "output_length": 1, "hash_ids": [1]}', "line 2: .*timestamp"),
        ('{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": []}', "line 2: input_length must"),
        (
            '{"timestamp": 0, "input_length": 9, "output_length": -1, "hash_ids": [1]}',
            "line 2: .*output_length between",
        ),
        ('{"timestamp": 0, "input_length": 100000000000, "output_length": 1, "hash_ids": [1]}', "line 2: input_length"),
        ('{"timestamp": 1e300, "input_length": 9, "output_length": 1, "hash_ids": [1]}', "line 2: .*days after"),
        ('{"timestamp": 0, "messages": []}', "line 2: .*warmroute replay"),
        ('{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}', "line 2: 2 hash_ids, but"),
        ('{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1.5]}', "line 2: .*hash_ids"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, wrong: str, said: str) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text(line(0, 10, 1, [1]) + wrong + "\n")
    with pytest.raises(ConfigError, match=said):
        workload(str(path), None)


def test_an_empty_file_and_one_that_is_not_text(tmp_path: Path) -> None:
    empty, binary, broken = tmp_path / "empty.jsonl", tmp_path / "binary.jsonl", tmp_path / "broken.jsonl.gz"
    empty.write_text("\n\n")
    binary.write_bytes(b"\xff\xfe\x00")
    broken.write_bytes(gzip.compress(b"{}" * 1000)[:20])
    with pytest.raises(ConfigError, match=r"empty\.jsonl has no requests"):
        trace_file(empty)
    for path in (binary, broken, tmp_path / "absent.jsonl"):
        with pytest.raises(ConfigError, match=f"{path.name} cannot be read"):
            trace_file(path)


def test_a_window_is_a_part_of_the_trace_in_less_time(tmp_path: Path) -> None:
    path = tmp_path / "minute.jsonl"
    path.write_text("".join(line(1000 * second, 10 + second, 1, [second]) for second in range(60)))
    trace = BlockTrace(read_block_trace(path, 512), 512, Window(20.0, speed=4.0))
    begins = set()
    for seed in range(12):
        sessions = list(trace.sessions(seed))
        seconds = [len(turn.prompt) - 10 for turn in turns(sessions)]
        assert seconds == list(range(seconds[0], seconds[0] + 20))
        assert all(0.0 <= session.start_s < 5.0 for session in sessions)
        gaps = {round(later.start_s - sooner.start_s, 9) for sooner, later in pairwise(sessions)}
        assert gaps == {0.25}
        begins.add(seconds[0])
    assert len(begins) > 5


def test_jitter_spreads_and_what_is_too_long_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rounded.jsonl"
    path.write_text("".join(line(3000 * (number // 50), 100, 1, [number]) for number in range(200)))
    spread = list(BlockTrace(read_block_trace(path, 512), 512, jitter_s=3.0).sessions(1))
    starts = [session.start_s for session in spread]
    assert len(set(starts)) == 200
    assert starts == sorted(starts)
    assert [sum(1 for at in starts if 3 * part <= at + 0.1 < 3 * part + 3.2) >= 48 for part in range(4)] == [True] * 4
    path.write_text(line(0, 100, 10, [1]) + line(1, 100, 11, [2]))
    kept = BlockTrace(read_block_trace(path, 512), 512, longest=110).sessions(1)
    assert [len(turn.answer) for turn in turns(kept)] == [10]
