"""`warmroute anonymize`."""

import gzip
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmroute.cli.main import main
from warmroute.request_log import Blocking, open_log
from warmroute.simulator.logs import Anonymizer, blocked_requests


def write_log(path: Path, requests: int = 5) -> str:
    lines = (json.dumps({"ts": 100 + at, "prompt": f"secret {at} " * 50, "model": "corp/m"}) for at in range(requests))
    path.write_text("\n".join(lines))
    return str(path)


def ids(path: Path) -> list[list[int]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line)["hash_ids"] for line in data.splitlines()]


def test_salts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl")
    made = [tmp_path / name for name in ("a", "b", "c", "d")]
    for path, more in zip(made, ([], [], ["--salt", "x"], ["--salt", "x"]), strict=True):
        assert main(["anonymize", log, "-o", str(path), *more]) == 0
    assert ids(made[0]) != ids(made[1])
    assert ids(made[2]) == ids(made[3])
    assert made[2].read_bytes() == made[3].read_bytes()


def test_packed_output_and_the_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl")
    assert main(["anonymize", log, "-o", str(tmp_path / "out.gz"), "--block-size", "4"]) == 0
    assert "5 requests, read as bodies" in capsys.readouterr().err
    assert len(ids(tmp_path / "out.gz")) == 5
    assert main(["anonymize", log, "-o", str(tmp_path / "out16.gz")]) == 0
    assert len(ids(tmp_path / "out.gz")[0]) > 3 * len(ids(tmp_path / "out16.gz")[0])


def test_a_pipe(tmp_path: Path) -> None:
    log = Path(write_log(tmp_path / "log.jsonl")).read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "warmroute", "anonymize", "-", "-o", "-"], input=log, capture_output=True, timeout=55
    )
    assert done.returncode == 0
    assert [json.loads(line)["timestamp"] for line in done.stdout.splitlines()] == [0, 1_000, 2_000, 3_000, 4_000]
    assert b"secret" not in done.stdout + done.stderr
    assert b"corp" not in done.stdout + done.stderr


def test_nothing_is_left_of_a_run_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text('{"prompt": "a"}\n')
    (tmp_path / "out").write_text("what was there")
    assert main(["anonymize", str(tmp_path / "log"), "-o", str(tmp_path / "out")]) == 2
    assert "no time" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "out"]
    assert (tmp_path / "out").read_text() == "what was there"


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl")
    for more, why in (
        (["-o", log], "the log itself"),
        (["-o", str(tmp_path / "x"), "--salt", ""], "empty"),
        (["-o", "/nowhere/x"], "cannot be written"),
        (["-o", str(tmp_path / "x"), "--block-size", "0"], "block_size"),
    ):
        assert main(["anonymize", log, *more]) == 2
        assert why in capsys.readouterr().err


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    def peak(requests: int) -> int:
        log = write_log(tmp_path / f"{requests}.jsonl", requests)
        reading, read = open_log(log)
        lines: Iterator[bytes] = Anonymizer(b"x").lines(blocked_requests(reading, read, Blocking()))
        tracemalloc.start()
        try:
            assert sum(1 for _ in lines) == requests
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(4_000) < 1.2 * peak(400) + 2**17


def test_a_reader_that_has_had_enough_is_no_crash(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    line = '{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1, 2]}'
    log.write_text(f"{line}\n" * 5_000)
    command = [sys.executable, "-m", "warmroute", "anonymize", str(log), "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
