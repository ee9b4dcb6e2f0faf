"""`warmroute index`: what it says and how it exits, whatever answers or lies in its way. Real routers: tests/e2e."""

import json
from pathlib import Path

import pytest

from cli.answering import answering, error
from warmroute.cli.main import main
from warmroute.gateway.state_file import LaneState, SavedState, encode, read, write

_LANES = tuple(LaneState(f"http://[fe80::{n}]:1", "tcp://a:1", n, None, 16, 1.0, b"blob" * n) for n in (1, 2))
_STATE = SavedState(2.0, "0.1.0", _LANES)
_LANE = {
    "worker": "http://[fe80::1]:1", "rank": 3, "endpoint": "tcp://a:1",
    "blocks": {"device": 12345, "host": 7, "disk": 0, "remote": 0, "predicted": 4, "orphans": 1},
    "block_sizes": {"16": 12345},
    "complete": True, "last_seq": 77, "age_s": 1.5,
}  # fmt: skip
_STATS = {
    "source": "this router", "router": "0.1.0", "lanes": [_LANE], "counts": {"blocks": 12345, "orphans": 0},
    "state_file": {"path": "/s/8080.index", "saved_s_ago": 12.0, "bytes": 4096, "problem": None},
}  # fmt: skip


def test_nobody_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path / "f", _STATE)
    for words in (["stats"], ["check"], ["dump", str(tmp_path / "d")], ["load", str(tmp_path / "f")]):
        assert main(["index", *words, "--url", "http://127.0.0.1:1"]) == 2
        assert "no router answers at http://127.0.0.1:1" in (said := capsys.readouterr().err)
        assert "start one with 'warmroute serve', or name another with --url" in said
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("url", ["foo", "ftp://x", "http://", "http://h:99999", "127.0.0.1:8080"])
def test_what_is_no_url(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["index", "stats", "--url", url]) == 2
    assert "write http://HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["stats", "check"])
def test_a_file_that_is_not_there_or_is_something_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    assert main(["index", action, "--file", str(tmp_path / "none")]) == 2
    assert "'warmroute index dump" in capsys.readouterr().err
    (tmp_path / "notes").write_text("dear diary")
    assert main(["index", action, "--file", str(tmp_path / "notes")]) == 1
    assert "notes cannot be used: it is no state file of warmroute" in capsys.readouterr().err
    assert main(["index", "load", str(tmp_path / "notes")]) == 1


def test_another_server_is_not_taken_for_a_router(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pages = {"GET /warmroute/index": (200, b'{"hello": 1}'), "GET /warmroute/index/dump": (200, b"<html>")}
    with answering(pages) as (url, _):
        assert main(["index", "check", "--url", url]) == 2
        assert "answers 404 Not Found: is a warmroute router there?" in capsys.readouterr().err
        assert main(["index", "stats", "--url", url]) == 2
        assert "is it of the same version?" in capsys.readouterr().err
        assert main(["index", "dump", str(tmp_path / "d"), "--url", url]) == 2
        assert "is no dump: it is no state file of warmroute" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_stats_of_a_router(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({"GET /warmroute/index": (200, json.dumps(_STATS).encode())}) as (url, _):
        assert main(["index", "stats", "--url", f"{url}/", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == _STATS
        assert main(["index", "stats", "--url", url]) == 0
    told = capsys.readouterr().out
    (row,) = (line for line in told.splitlines() if "12,345" in line and "fe80" in line)
    assert row.split() == [*("http://[fe80::1]:1", "3", "16", "12,345", "7", "4", "1", "yes", "77", "2", "s")]
    assert "whole index: blocks 12,345\n" in told
    assert "state file /s/8080.index: written 12 s ago, 4,096 bytes" in told


def test_stats_of_an_empty_router_and_of_a_state_file_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"path": "/s/x", "saved_s_ago": None, "bytes": None, "problem": "it cannot be written: No space left"}
    empty = _STATS | {"lanes": [], "counts": {}, "state_file": problem}
    with answering({"GET /warmroute/index": (200, json.dumps(empty).encode())}) as (url, _):
        assert main(["index", "stats", "--url", url]) == 0
    told = capsys.readouterr().out
    assert "this router knows of no lane" in told
    assert "whole index: empty" in told
    assert "state file /s/x: it cannot be written: No space left" in told


def test_check_tells_what_is_wrong_and_exits_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"lanes": 2, "blocks": 5, "problems": ["lane [3] holds what nobody stored"], "undecided": None}
    with answering({"POST /warmroute/index/check": (200, json.dumps(broken).encode())}) as (url, _):
        assert main(["index", "check", "--url", url]) == 1
        assert "lane [3] holds what nobody stored" in capsys.readouterr().out
        assert main(["index", "check", "--url", url, "--json"]) == 1
        assert json.loads(capsys.readouterr().out) == broken
    sound = broken | {"problems": []}
    with answering({"POST /warmroute/index/check": (200, json.dumps(sound).encode())}) as (url, _):
        assert main(["index", "check", "--url", url]) == 0
        assert capsys.readouterr().out == "sound: 5 blocks in 2 lanes\n"
    busy = sound | {"undecided": "ask again"}
    with answering({"POST /warmroute/index/check": (200, json.dumps(busy).encode())}) as (url, _):
        assert main(["index", "check", "--url", url]) == 2
        assert capsys.readouterr().out == "undecided: 5 blocks in 2 lanes\n  ask again\n"


def test_a_dump_becomes_a_file_for_its_owner(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = b"".join(encode(_STATE))
    path = tmp_path / "new" / "caches.index"
    with answering({"GET /warmroute/index/dump": (200, data)}) as (url, _):
        assert main(["index", "dump", str(path), "--url", url]) == 0
        assert capsys.readouterr().out == f"{path}: 2 lanes, {len(data):,} bytes\n"
        assert main(["index", "dump", str(path), "--url", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"file": str(path), "bytes": len(data), "lanes": 2}
        assert main(["index", "dump", str(tmp_path), "--url", url]) == 2
        assert "cannot be written" in capsys.readouterr().err
    assert read(path) == _STATE
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_dump_goes_to_a_redirected_output_and_not_to_a_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(encode(_STATE))
    with answering({"GET /warmroute/index/dump": (200, data)}) as (url, asked):
        assert main(["index", "dump", "-", "--url", url]) == 0
        assert capfdbinary.readouterr().out == data
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        assert main(["index", "dump", "-", "--url", url]) == 2
        assert b"redirect: warmroute index dump - > FILE" in capfdbinary.readouterr().err
        assert len(asked) == 1


def test_load_hands_over_lane_by_lane_and_tells_of_each(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path / "f", _STATE)
    taken = {"worker": "http://[fe80::1]:1", "rank": 1, "taken": True, "blocks": 9, "detail": "to be verified"}
    with answering({"POST /warmroute/index/load": (200, json.dumps({"lanes": [taken]}).encode())}) as (url, asked):
        assert main(["index", "load", str(tmp_path / "f"), "--url", url]) == 0
    told = capsys.readouterr().out
    assert told.count("http://[fe80::1]:1") == 2
    assert "to be verified" in told
    assert [body for _, body in asked] == [b"".join(encode(SavedState(2.0, "0.1.0", (lane,)))) for lane in _LANES]


def test_nothing_taken_is_a_bad_result(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path / "f", _STATE)
    with answering({"POST /warmroute/index/load": (413, error("too large"))}) as (url, _):
        assert main(["index", "load", str(tmp_path / "f"), "--url", url, "--json"]) == 1
    lanes = json.loads(capsys.readouterr().out)["lanes"]
    assert [(lane["rank"], lane["taken"]) for lane in lanes] == [(1, False), (2, False)]
    assert all("larger --max-body-bytes" in lane["detail"] for lane in lanes)
    write(tmp_path / "empty", SavedState(2.0, "0.1.0", ()))
    assert main(["index", "load", str(tmp_path / "empty")]) == 1
    assert "the file holds no lane" in capsys.readouterr().out


def test_the_routers_own_reason_is_passed_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write(tmp_path / "f", _STATE)
    with answering({"POST /warmroute/index/load": (400, error("the body cannot be used: why"))}) as (url, _):
        assert main(["index", "load", str(tmp_path / "f"), "--url", url]) == 2
    assert capsys.readouterr().err == "warmroute index: the body cannot be used: why\n"


@pytest.mark.parametrize("words", [[], ["stats"], ["dump"], ["load"], ["check"]])
def test_help_teaches(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["index", *words, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert ("warmroute index load caches.index" if not words else "--url URL") in told


@pytest.mark.parametrize(
    "words", [[], ["start"], ["stats", "--file", "f", "--url", "u"], ["dump"], ["load"], ["load", "--file", "f"]]
)
def test_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["index", *words])
    assert ended.value.code == 2
