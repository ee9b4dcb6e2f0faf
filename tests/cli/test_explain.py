"""`warmroute explain`: what it makes of the router's answers, and how it exits. Real routers: tests/e2e."""

import io
import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.answering import answering, error
from router.fleet import Fleet, blocks
from warmroute.cli.main import main
from warmroute.diagnostics.explain import explain
from warmroute.policy import Candidate, Cost, PolicyRequest

_PAGE = "POST /warmroute/explain"
_BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
_PROMPT = blocks(*(f"block {number}" for number in range(200)))


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "WARMROUTE_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def body(tmp_path: Path) -> str:
    file = tmp_path / "body.json"
    file.write_text(json.dumps(_BODY))
    return str(file)


def explained(fleet: Fleet, prompt: Sequence[int] = _PROMPT) -> Any:
    """What a router of this fleet tells of a request with this prompt."""
    return explain(fleet.route(fleet.request(prompt)))


def warm_and_busy(policy: str = "warmroute") -> Fleet:
    """A holds most of the prompt and has something to do; B holds some of it; C has nothing of either."""
    fleet = Fleet("ABC", policy)
    fleet.holds("A", _PROMPT[: 150 * 16])
    fleet.holds("B", _PROMPT[: 70 * 16])
    fleet.router.table.book(fleet.workers["A"], "other", 100, None)
    return fleet


def shown(
    capsys: pytest.CaptureFixture[str], told: Any, body: str, *words: str, code: int = 0, status: int = 200
) -> str:
    """What the command writes where the router answers `told`."""
    with answering({_PAGE: (status, json.dumps(told).encode())}) as (url, _):
        assert main(["explain", body, "--url", url, *words]) == code
    return capsys.readouterr().out


def test_the_table_has_each_worker_with_its_terms_and_a_bar(capsys: pytest.CaptureFixture[str], body: str) -> None:
    told = explained(warm_and_busy())
    out = shown(capsys, told, body)
    table = out.split("bars:")[0].splitlines()[2:]
    rows = {line.split()[0]: line.split() for line in table if "http" in line}
    assert next(iter(rows)) == "http://A:1"
    for line in told["workers"]:
        row = rows[line["worker"]]
        assert row[1] == f"{line['cached_tokens']:,}"
        assert f"{1000 * line['cost']:,.1f}" in row
        assert {f"{1000 * seconds:,.1f}" for seconds in line["terms"].values()} - {"0.0"} <= set(row)
        assert set(row[-1]) <= set("#=+:o"), "the bar"
    assert "bars:  # prefill  = queue" in out
    assert "costs in ms, lowest wins" in out


def test_why_it_won_and_what_would_change_that_is_said(capsys: pytest.CaptureFixture[str], body: str) -> None:
    told = explained(warm_and_busy())
    out = shown(capsys, told, body)
    assert out.startswith("http://A:1 gets it: it holds 2400 of 3200 prompt tokens, as much as any worker\n")
    second = told["runner_up"]
    assert f"runner-up: http://B:1, which costs {1000 * second['gap']:,.1f} more: prefill +" in out
    needed = {(each["worker"], each["figure"]): (each["now"], each["needed"]) for each in second["changes"]}
    now, then = needed["http://B:1", "cached_tokens"]
    assert f"  {then - now} more cached tokens: {then:,} instead of {now:,}\n" in out
    now, then = needed["http://A:1", "requests"]
    assert f"  {then - now} more request" in out
    now, then = needed["http://A:1", "queued_tokens"]
    assert f"  {then - now:,} more queued tokens: {then:,} instead of {now:,}\n" in out
    assert out.index("it would surely win with") < out.index("http://A:1 would surely lose with")


def test_what_would_not_do_is_said(capsys: pytest.CaptureFixture[str], body: str) -> None:
    fleet = Fleet("AB", "least-loaded")
    for number in range(2):
        fleet.router.table.book(fleet.workers["B"], str(number), 100, None)
    out = shown(capsys, explained(fleet), body)
    assert "no number of cached tokens, not even all of the prompt" in out
    assert "no fewer queued tokens, not even none" in out
    assert "not even idle would it surely win" in out, "it would be a tie"
    assert "no number of queued tokens" in out
    assert "costs in requests, lowest wins" in out


def test_equals_are_said_to_be(capsys: pytest.CaptureFixture[str], body: str) -> None:
    assert "which costs the same: chance decided" in shown(capsys, explained(Fleet("AB")), body)


@pytest.mark.parametrize(
    ("policy", "said"), [("random", "the policy draws lots"), ("round-robin", "whatever workers hold and have to do")]
)
def test_where_nothing_would_change_it_that_is_said(
    capsys: pytest.CaptureFixture[str], body: str, policy: str, said: str
) -> None:
    out = shown(capsys, explained(warm_and_busy(policy)), body)
    assert said in out
    assert "would surely win" not in out


def test_one_worker_alone_has_no_runner_up(capsys: pytest.CaptureFixture[str], body: str) -> None:
    assert "no other worker was considered" in shown(capsys, explained(Fleet("A")), body)


def test_of_many_workers_the_cheapest_are_shown_and_the_others_counted(
    capsys: pytest.CaptureFixture[str], body: str
) -> None:
    told = explained(Fleet([f"w{number}" for number in range(200)]))
    assert (told["eligible"], len(told["workers"])) == (200, 32)
    out = shown(capsys, told, body)
    assert out.count("http://w") - out.split("bars:")[1].count("http://w") == 10 + 1
    assert "and 22 more that were considered (--workers 32 shows them)" in out
    assert "of 200 workers that could take it 32 were looked at" in out
    out = shown(capsys, told, body, "--workers", "32")
    assert "more that were considered" not in out
    assert out.count("http://w") - out.split("bars:")[1].count("http://w") == 32 + 1


def test_ranks_are_named(capsys: pytest.CaptureFixture[str], body: str) -> None:
    fleet = Fleet("AB")
    fleet.set_ranks("A", 2)
    fleet.holds("A", _PROMPT, lane=1)
    out = shown(capsys, explained(fleet), body)
    assert out.startswith("http://A:1 rank 1 gets it")
    assert "http://A:1 rank 1 would surely lose with" in out


class Excluding:
    """Rules workers out by their price, and has terms that are no parts of it."""

    name = "excluding"
    unit = "points"

    def costs(self, request: PolicyRequest, candidates: Sequence[Candidate], rng: random.Random) -> list[Cost]:
        return [Cost(float("inf") if number else 0.5, {"excluded": float(number)}) for number in range(len(candidates))]


def test_an_infinite_cost_is_shown_as_none(capsys: pytest.CaptureFixture[str], body: str) -> None:
    fleet = Fleet("AB")
    fleet.router.policy = Excluding()
    told = explained(fleet)
    assert [line["cost"] for line in told["workers"]] == [0.5, None]
    assert told["runner_up"]["gap"] is None
    out = shown(capsys, told, body)
    assert "bars:" not in out
    assert "whose cost is no finite number" in out


def test_a_narrow_terminal_does_without_some_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    told = explained(warm_and_busy())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    for columns, lacks, has in (("100", "queued", "stall"), ("80", "stall", "cost"), ("200", "nothing", "queued")):
        monkeypatch.setenv("COLUMNS", columns)
        table = re.sub("\x1b[^m]*m", "", shown(capsys, told, body).split("bars:")[0])
        assert lacks not in table
        assert has in table
        assert "###" in table
        assert max(map(len, table.splitlines()[2:])) <= int(columns)


def test_json_is_the_routers_answer(capsys: pytest.CaptureFixture[str], body: str) -> None:
    told = explained(warm_and_busy())
    assert json.loads(shown(capsys, told, body, "--json")) == json.loads(json.dumps(told))


@pytest.mark.parametrize(("reason", "status"), [("no-worker-ready", 503), ("unknown-model", 404)])
def test_a_refusal_is_shown_and_is_a_bad_result(
    capsys: pytest.CaptureFixture[str], body: str, reason: str, status: int
) -> None:
    refusal = {"refused": reason, "detail": "no worker is registered"}
    out = shown(capsys, refusal, body, code=1, status=status)
    assert out == f"refused ({reason}): no worker would get it\nno worker is registered\n"
    assert json.loads(shown(capsys, refusal, body, "--json", code=1, status=status)) == refusal


def test_the_body_and_the_path_come_to_the_router_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told, text = json.dumps(explained(Fleet("AB"))).encode(), b'{"model": "m",  "input" : "hi"}'
    (tmp_path / "body").write_bytes(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    page = f"{_PAGE}?path=/v1/embeddings"
    with answering({_PAGE: (200, told), page: (200, told)}) as (url, asked):
        assert main(["explain", str(tmp_path / "body"), "--url", url, "--path", "/v1/embeddings"]) == 0
        assert main(["explain", "-", "--url", url]) == 0
    assert asked == [(page, text), (_PAGE, text)]
    capsys.readouterr()


def test_what_cannot_be_asked_is_wrong_usage(capsys: pytest.CaptureFixture[str], body: str, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("dear diary")
    for words, said in (
        ([str(tmp_path / "none")], "cannot read"),
        ([str(tmp_path / "notes")], "no messages, prompt or input; name its endpoint with --path"),
        ([body, "--workers", "0"], "--workers must be at least 1"),
        ([body, "--url", "http://127.0.0.1:1"], "no router answers at http://127.0.0.1:1"),
    ):
        assert main(["explain", *words]) == 2
        assert said in capsys.readouterr().err


def test_other_errors_are_the_routers_own(capsys: pytest.CaptureFixture[str], body: str) -> None:
    for status, answer, said in (
        (400, error("messages must be a list"), "warmroute explain: messages must be a list"),
        (401, error("no"), "put it into the variable WARMROUTE_ADMIN_KEY"),
        (404, b"<html>", "is a warmroute router there?"),
        (200, b'{"worker": "http://a:1"}', "is it of the same version?"),
    ):
        with answering({_PAGE: (status, answer)}) as (url, _):
            assert main(["explain", body, "--url", url]) == 2
        assert said in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert all(word in told for word in ("examples:", "exit codes:", "--workers N", "--path PATH", "--url URL"))
