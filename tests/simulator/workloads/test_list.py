from pathlib import Path

import pytest

from simulator.workloads.made import TRACES
from warmroute.errors import ConfigError
from warmroute.simulator.workloads import WORKLOADS, Listed, workload
from warmroute.simulator.workloads.recorded import Recorded


def test_names_are_given_once_and_lines_fit() -> None:
    names = [listed.name for listed in WORKLOADS]
    assert len(set(names)) == len(names)
    assert names[:3] == ["reference", "reference-2025", "reference-37"]
    assert all(listed.about and "\n" not in listed.about and len(listed.about) <= 110 for listed in WORKLOADS)


@pytest.mark.parametrize("listed", WORKLOADS, ids=lambda listed: listed.name)
def test_each_opens_under_its_name(listed: Listed) -> None:
    if not TRACES.is_dir() and isinstance(listed, Recorded):
        pytest.skip("the recorded traces are not beside this checkout")
    opened = workload(listed.name, TRACES)
    assert (opened.name, opened.about) == (listed.name, listed.about)
    assert len(opened.fleet.engines) >= 3


def test_traces_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="say where they are: --traces FOLDER"):
        workload("claude-code", None)
    with pytest.raises(ConfigError, match=r"needs .*conversation_trace\.jsonl, which is not there; --traces names"):
        workload("mooncake-conversation", tmp_path)


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"multi-tern is neither a workload nor a file; did you mean multi-turn\?"):
        workload("multi-tern", None)
    with pytest.raises(ConfigError, match="`warmroute simulate --list` lists them"):
        workload(str(tmp_path / "xyz"), None)


def test_a_file_is_a_workload_too(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 20, "output_length": 3, "hash_ids": [7, 8]}\n')
    opened = workload(str(path), None, block_tokens=16)
    assert opened.name == "own.jsonl"
    assert opened.about == "1 requests from a file in Mooncake's format, with blocks of 16 tokens"
