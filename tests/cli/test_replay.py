"""`warmroute replay`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warmroute.cli.main import main
from warmroute.cli.replay import ReplayOptions, sizes
from warmroute.errors import ConfigError
from warmroute.simulator.replay import POLICIES

FAST = ["--workers", "2", "--policy", "round-robin", "--policy", "warmroute", "--jobs", "1"]


def write_log(path: Path, requests: int = 30, broken: int = 0) -> str:
    lines = [
        json.dumps({"ts": 1_770_982_413 + at / 4, "prompt": f"prefix {at % 3} " * 400 + str(at), "max_tokens": 20})
        for at in range(requests)
    ]
    path.write_text("\n".join([*lines, *["{broken"] * broken]))
    return str(path)


def run(*words: str, hash_seed: str = "0") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "warmroute", *words],
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


def test_a_table_a_page_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl", broken=7)
    made = [str(tmp_path / name) for name in ("r.json", "r.html")]
    assert main(["replay", log, *FAST, "--json", made[0], "--html", made[1]]) == 0
    printed = capsys.readouterr()
    for part in (
        "30 requests",
        "broken lines left out: 7",
        "estimated",
        "guessed",
        "One worker is enough",
        "warmroute",
    ):
        assert part in printed.out
    assert "line 31 is left out: it is not JSON" in printed.err
    assert "line 35 is left out" in printed.err
    assert "2 more broken lines" in printed.err
    assert "2 workers: warmroute on log.jsonl" in printed.err
    told = json.loads(Path(made[0]).read_text())
    assert set(told) == {"command", "log", "reuse", "alone", "fleets", "recommendation"}
    assert told["command"].startswith("warmroute replay ")
    assert told["log"]["broken_lines"] == 7
    assert "warmroute, 2 workers" in Path(made[1]).read_text()


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl")
    one = run("replay", log, *FAST, "--json", hash_seed="1")
    two = run("replay", log, *FAST[:-1], "2", "--json", "-", hash_seed="2")
    assert (one.returncode, two.returncode) == (0, 0)
    assert one.stdout == two.stdout
    assert json.loads(one.stdout)["recommendation"]["text"]


def test_standard_input(tmp_path: Path) -> None:
    log = Path(write_log(tmp_path / "log.jsonl")).read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "warmroute", "replay", "-", *FAST], input=log, capture_output=True, timeout=55
    )
    assert done.returncode == 0
    assert b"30 requests" in done.stdout


def test_an_anonymized_log_gives_the_same_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl")
    shared = str(tmp_path / "shared.jsonl.gz")
    assert main(["anonymize", log, "-o", shared]) == 0
    told = []
    for name in (log, shared):
        assert main(["replay", name, *FAST, "--json", "-"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0]["alone"] == told[1]["alone"]
    assert told[0]["recommendation"] == told[1]["recommendation"]
    assert told[0]["reuse"] == told[1]["reuse"]


def test_a_limit_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl")
    assert main(["replay", log, *FAST, "--limit", "10"]) == 0
    assert "10 requests over" in (out := capsys.readouterr().out)
    assert "the log has more" in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--policy", "warmrout"],
            "there is no policy 'warmrout' (one of your own is package.module:Class); did you mean 'warmroute'?",
        ),
        (["--workers", "two"], "2,4,8 or 2-8"),
        (["--workers", "1"], "two workers"),
        (["--speed", "0"], "speed"),
        (["--limit", "-1"], "limit"),
        (["--closed-loop"], "no sessions"),
        (["--json", "/nowhere/x.json"], "/nowhere"),
        (["--format", "mooncake"], "Mooncake"),
        (["--tokenizer", "no/such-model"], "--tokenizer"),
    ],
)
def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str) -> None:
    log = write_log(tmp_path / "log.jsonl")
    assert main(["replay", log, *words]) == 2
    assert why in capsys.readouterr().err


def test_a_log_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("2026-02-13 started\n")
    assert main(["replay", str(tmp_path / "log")]) == 2
    assert "line 1: nothing here tells of a request; known formats: anonymized" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "none")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_help_shows_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for part in (
        "bodies",
        "vllm",
        "litellm",
        "mooncake",
        "dynamo",
        "anonymized",
        "--closed-loop",
        "qwen3-32b-h100-tp2",
    ):
        assert part in out
    assert max(map(len, out.splitlines())) <= 120


def test_interrupted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", requests=3_000)
    command = [sys.executable, "-m", "warmroute", "replay", log, "--workers", "2-8", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            process.stderr.readline()  # the first simulation has ended, so more are under way
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130


def test_all_policies_and_those_of_ones_own() -> None:
    chosen = ReplayOptions(policy=("mine:Mine", "all")).policies
    assert chosen[0] == "mine:Mine"
    assert {*POLICIES, "dynamo"} <= set(chosen)
    assert ReplayOptions().policies == POLICIES


def test_sizes_of_fleets() -> None:
    assert sizes("2,4,8") == (2, 4, 8)
    assert sizes("2-4, 8") == (2, 3, 4, 8)
    for wrong in ("", "a", "4-2", "0", "2-", "-2", "2;4", "²", "9" * 30, "1-9999"):
        with pytest.raises(ConfigError):
            sizes(wrong)
