"""`warmroute simulate` as people run it: as a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.made_workloads import write_trace
from warmroute.simulator.rivals import ARMS
from warmroute.simulator.workloads import WORKLOADS

_LIMIT_S = 50.0
PROMISED = {
    "output_tokens_per_s", "ttft_mean_s", "ttft_p90_s", "queue_mean", "kv_usage_mean", "cached_token_share", "failed",
}  # fmt: skip


def simulate(folder: Path, *flags: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "warmroute", "simulate", *flags],
        cwd=folder, env=os.environ | {"COLUMNS": "140"} | variables, capture_output=True, text=True, timeout=_LIMIT_S,
        check=False,
    )  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return write_trace(tmp_path / "trace.jsonl").name


def test_json_has_the_promised_names(tmp_path: Path, trace: str) -> None:
    done = simulate(
        tmp_path, "--workload", trace, "--workers", "2", "--policy", "random", "--policy", "warmroute",
        "--seeds", "2", "--seed", "5", "--json", "out.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
    assert (result["workload"]["requests"], result["workers"], result["seeds"]) == (60, 2, [5, 6])
    assert set(result["policies"]) == {"random", "warmroute"}
    for policy in result["policies"].values():
        assert policy["summary"].keys() >= PROMISED
        for run in policy["runs"]:
            assert run["summary"].keys() >= PROMISED
            assert all(stage.keys() >= PROMISED for stage in run["stages"])
            assert run["summary"]["failed"] == 0
    assert result["policies"]["warmroute"]["summary"]["cached_token_share"] > 0.6
    assert result["command"] == (
        "warmroute simulate --workload trace.jsonl --policy random --policy warmroute --workers 2 --seeds 2 --seed 5"
    )
    words = " ".join(done.stdout.split())
    assert "* best of its column" in words
    assert "of the prompt tokens in caches, of" in words
    assert "6 of 6 after" in done.stderr
    assert "warmroute on trace.jsonl, seed 6" in done.stderr


def test_the_same_command_gives_the_same_bytes_in_any_process(tmp_path: Path, trace: str) -> None:
    flags = ("--workload", trace, "--policy", "random", "--policy", "warmroute", "--policy", "smg-event", "--tuned")
    made = []
    for name, jobs, hash_seed in (("one", "1", "1"), ("two", "2", "2"), ("three", "2", "random")):
        files = ("--json", f"{name}.json", "--html", f"{name}.html", "--jobs", jobs)
        done = simulate(tmp_path, *flags, *files, PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
        made.append(((tmp_path / f"{name}.json").read_bytes(), (tmp_path / f"{name}.html").read_bytes(), done.stdout))
    assert made[0] == made[1] == made[2]


def test_json_goes_to_standard_output_alone(tmp_path: Path, trace: str) -> None:
    done = simulate(tmp_path, "--workload", trace, "--policy", "random", "--jobs", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["policies"].keys() == {"random"}


def test_speed_and_duration_and_workers_change_the_work(tmp_path: Path, trace: str) -> None:
    done = simulate(
        tmp_path, "--workload", trace, "--policy", "random", "--speed", "2", "--duration", "1", "--workers", "3",
        "--jobs", "1", "--json", "-",
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert result["workload"]["requests"] == 41  # 50 ms apart, at twice the speed 40 in the first second
    assert (result["speed"], result["duration_s"], result["workers"]) == (2.0, 1.0, 3)
    assert len(result["policies"]["random"]["runs"][0]["series"]["load"]["workers"]) == 3


def test_the_html_report_is_one_file_with_all_policies(tmp_path: Path, trace: str) -> None:
    done = simulate(tmp_path, "--workload", trace, "--policy", "round-robin", "--policy", "dynamo", "--html", "r.html")
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "r.html").read_text()
    data = json.loads(html.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert data["policies"] == ["round-robin", "dynamo"]
    assert {line["policy"] for line in data["plots"][0]["lines"]} == {0, 1}


def test_all_means_every_policy_once(tmp_path: Path) -> None:
    name = write_trace(tmp_path / "short.jsonl", requests=6).name
    done = simulate(tmp_path, "--workload", name, "--policy", "random", "--policy", "all", "--jobs", "1", "--json")
    assert done.returncode == 0, done.stderr
    names = list(json.loads(done.stdout)["policies"])
    assert names[0] == "random"
    assert sorted(names) == sorted(ARMS)


def test_list_shows_what_there_is(tmp_path: Path) -> None:
    listed = simulate(tmp_path, "--list")
    assert listed.returncode == 0, listed.stderr
    for name in [*(workload.name for workload in WORKLOADS), *ARMS]:
        assert any(line.split()[:1] == [name] for line in listed.stdout.splitlines()), name
    told = json.loads(simulate(tmp_path, "--list", "--json").stdout)
    assert [workload["name"] for workload in told["workloads"]] == [workload.name for workload in WORKLOADS]
    assert [policy["name"] for policy in told["policies"]] == list(ARMS)
    assert told["policies"][0].keys() == {"name", "about", "source", "knob"}


OWN = '''
from warmroute.policy import Cost


class First:
    """Always the first worker."""

    name = "first"
    unit = "position"

    def costs(self, request, candidates, rng):
        return [Cost(float(position), {}) for position, _ in enumerate(candidates)]


class Broken(First):
    def costs(self, request, candidates, rng):
        raise RuntimeError("a fault on purpose")


class Unmakeable(First):
    def __init__(self, weight):
        pass
'''


def test_a_policy_of_ones_own_is_taken_from_the_current_folder(tmp_path: Path, trace: str) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    done = simulate(
        tmp_path, "--workload", trace, "--policy", "mine:First", "--policy", "round-robin", "--jobs", "2", "--json"
    )
    assert done.returncode == 0, done.stderr
    own = json.loads(done.stdout)["policies"]["mine:First"]
    assert own["about"] == "Always the first worker."
    assert own["summary"]["load_ratio"] == 8.0  # all of it on one of eight


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_policy_that_raises_fails_loudly(tmp_path: Path, trace: str, jobs: str) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    done = simulate(
        tmp_path,
        "--workload",
        trace,
        "--policy",
        "mine:Broken",
        "--policy",
        "random",
        "--jobs",
        jobs,
        "--json",
        "o.json",
    )
    assert done.returncode == 1
    assert "warmroute simulate: mine:Broken on trace.jsonl, seed 1: the policy raised an error" in done.stderr
    assert "a fault on purpose" in done.stderr  # with its traceback, for whoever wrote it
    assert done.stdout == ""
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--workload", "mooncake-conversatoin"), "did you mean mooncake-conversation"),
        (("--workload", "claude-code"), "--traces FOLDER"),
        (("--policy", "warm-route"), "did you mean 'warmroute'"),
        (("--policy", "mine:Missing"), "the policy mine:Missing cannot be found: there is no module mine in"),
        (("--workers", "0"), "workers must lie between 1"),
        (("--seeds", "0"), "seeds must lie between 1"),
        (("--speed", "nan"), "speed must lie between"),
        (("--duration", "-1"), "duration must lie between"),
        (("--json", "absent/out.json"), "there is no folder absent"),
        (("--html", "."), "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    done = simulate(tmp_path, *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_policy_that_cannot_be_made_is_named(tmp_path: Path, trace: str) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    done = simulate(tmp_path, "--workload", trace, "--policy", "mine:Unmakeable")
    assert done.returncode == 2
    assert "the policy mine:Unmakeable cannot be made: TypeError" in done.stderr


def test_a_line_that_is_wrong_is_named(tmp_path: Path, trace: str) -> None:
    with (tmp_path / trace).open("a") as file:
        file.write('{"timestamp": 1}\n')
    done = simulate(tmp_path, "--workload", trace)
    assert done.returncode == 2
    assert "line 61" in done.stderr


def test_help_teaches_with_examples(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--help")
    assert done.returncode == 0
    assert "warmroute simulate --workload reference --policy random" in done.stdout
    assert "exit codes: 0 done; 1 a simulation failed; 2 wrong usage; 130 interrupted." in done.stdout


def descendants(pid: int) -> list[int]:
    """The children of a process, as Linux tells them."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupt_ends_everybody(tmp_path: Path, number: signal.Signals) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", "simulate", "--workload", "reference", "--jobs", "2",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    async with asyncio.timeout(_LIMIT_S):
        while len(started := descendants(process.pid)) < 3:  # two that simulate, and what tracks their resources
            await asyncio.sleep(0.02)
        os.killpg(process.pid, number)  # as a terminal does: all of them hear it
        output, errors = await process.communicate()
    assert process.returncode == 130, errors
    assert (output, errors) == (b"", b"")
    async with asyncio.timeout(_LIMIT_S):
        while any(_is_running(pid) for pid in started):
            await asyncio.sleep(0.02)


async def test_processes_do_not_outlive_one_that_is_killed(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warmroute", "simulate", "--workload", "reference", "--jobs", "2",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    async with asyncio.timeout(_LIMIT_S):
        while len(started := descendants(process.pid)) < 3:
            await asyncio.sleep(0.02)
        process.kill()
        await process.wait()
        while any(_is_running(pid) for pid in started):
            await asyncio.sleep(0.02)


def _is_running(pid: int) -> bool:
    """Not where it has ended and nobody has asked how."""
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
