"""The matrix: rows that are done anew stand among those that are not, and nowhere else."""

import json
from pathlib import Path

import pytest
from bench import matrix
from tools import matrix_tables

_WORKLOAD = ("--workload", "burst", "--seeds", "1", "--jobs", "1")


def test_one_policy_can_be_done_anew(tmp_path: Path) -> None:
    whole, anew = tmp_path / "whole.json", tmp_path / "anew.json"
    first = ["--policy", "random", "--policy", "round-robin", "--out", str(whole)]
    assert matrix.main([*_WORKLOAD, *first]) == 0
    rows = json.loads(whole.read_text())["workloads"]["burst"]["policies"]
    assert list(rows) == ["random", "round-robin"]
    assert matrix.main([*_WORKLOAD, "--policy", "random", "--onto", str(whole), "--out", str(anew)]) == 0
    told = json.loads(anew.read_text())
    assert told["workloads"]["burst"]["policies"] == rows, "equal commits give equal figures"
    assert "That is true of `random`; the others' rows are of" in matrix_tables.matrix(told)


def test_rows_of_other_seeds_are_not_mixed(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"seeds": [1, 2, 3], "workloads": {}}))
    with pytest.raises(SystemExit, match="has 3 seeds"):
        matrix.main([*_WORKLOAD, "--policy", "random", "--onto", str(earlier), "--out", str(tmp_path / "out")])
