"""`warmroute doctor` as a command: what it prints, what it writes, how it ends."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from doctor.requests_to_diagnose import RULES, asked, diagnosed
from warmroute.cli.main import main
from warmroute.doctor import Kind


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "requests.jsonl"
    requests = asked(lambda number: f"Current time: 2026-03-{number + 1:02d}\n{RULES}")
    path.write_text("".join(json.dumps(each.body) + "\n" for each in requests))
    return path


@pytest.fixture
def clean_log(tmp_path: Path) -> Path:
    path = tmp_path / "clean.jsonl"
    path.write_text("".join(json.dumps(each.body) + "\n" for each in asked(lambda _: RULES)))
    return path


def test_a_report(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(log)]) == 0
    shown = capsys.readouterr().out
    assert "10 requests in 1 families" in shown
    assert "1. date-time in messages[0].content, character 23" in shown
    assert "move `Current time: ...`" in shown


def test_the_example_of_the_document_is_what_is_printed(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()
    example = document[document.index("    1. date-time") :].partition("\n\n")[0]
    assert main(["doctor", str(log)]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.removeprefix("    ") for line in example.splitlines()] == printed[printed.index("") + 1 :]


def test_every_kind_is_in_the_document() -> None:
    document = (Path(__file__).resolve().parents[2] / "docs" / "doctor.md").read_text()
    assert all(f"`{kind}`" in document for kind in Kind)


def test_json_is_the_report(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(log), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    expected = diagnosed(asked(lambda number: f"Current time: 2026-03-{number + 1:02d}\n{RULES}"))
    assert report["cached_share"] == expected.cached_share
    assert [(found["kind"], found["tokens_lost"]) for found in report["findings"]] == [
        (found.kind, found.tokens_lost) for found in expected.findings
    ]


def test_fail_under(log: Path, clean_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(log), "--fail-under", "0.9"]) == 1
    assert "90.0% is asked for" in capsys.readouterr().err
    assert main(["doctor", str(clean_log), "--fail-under", "0.9"]) == 0


def test_suggest_prints_a_body(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(log), "--suggest", "1"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["messages"][0]["content"] == RULES
    assert "Current time: 2026-03-" in body["messages"][1]["content"]
    assert main(["doctor", str(log), "--suggest", "2"]) == 2


def test_a_page(log: Path, tmp_path: Path) -> None:
    assert main(["doctor", str(log), "--html", str(tmp_path / "page.html")]) == 0
    assert "date-time" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name a log, or a router"),
        (["no-such-file"], "cannot read no-such-file"),
        (["LOG", "--memory", "1"], "memory must lie between"),
        (["LOG", "--fail-under", "90"], "fail_under must lie between 0 and 1"),
        (["LOG", "--tokenizer", "no-such-model"], "--tokenizer"),
    ],
)
def test_wrong_usage(words: list[str], told: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *(str(log) if word == "LOG" else word for word in words)]) == 2
    assert told in capsys.readouterr().err


def test_a_log_without_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_text('{"messages": []}\n')
    assert main(["doctor", str(path)]) == 2
    assert "no request with a prompt" in capsys.readouterr().err


@contextmanager
def router(status: int, body: bytes) -> Iterator[str]:
    """The address of a server that answers everything alike."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Tests are silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_what_a_router_has_seen(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(log), "--json"]) == 0
    report = capsys.readouterr().out
    with router(200, report.encode()) as url:
        assert main(["doctor", "--url", url, "--fail-under", "0.9"]) == 1
    assert "1. date-time in messages[0].content" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [(404, b"{}", "log requests and give the log"), (200, b"[]", "is it of the same version")],
)
def test_a_router_without_a_doctor(status: int, body: bytes, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with router(status, body) as url:
        assert main(["doctor", "--url", url]) == 2
    assert told in capsys.readouterr().err
