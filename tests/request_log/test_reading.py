"""Whole logs: files of every kind, formats told apart, lines that are broken."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from request_log.reads import read_file
from request_log.test_litellm import PAYLOAD, SPEND_ROW
from request_log.test_vllm import lines_0_10, lines_0_16
from warmroute.errors import ConfigError
from warmroute.request_log import Blocking, open_log
from warmroute.request_log import lines as lines_module
from warmroute.simulator.logs import read_all

BODY = json.dumps({"ts": 5, "body": {"prompt": "hello"}})
MOONCAKE = json.dumps({"timestamp": 27482, "input_length": 600, "output_length": 52, "hash_ids": [46, 47]})
ANONYMIZED = json.dumps(
    {"timestamp": 0, "input_length": 20, "output_length": 5, "hash_ids": [2**63 - 1, 3], "block_size": 16, "session": 0}
)
DYNAMO = json.dumps(
    {
        "timestamp": 49492,
        "event": {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "agent_context": {"session_id": "a:root"},
            "request": {
                "request_received_ms": 1779163048815,
                "total_time_ms": 1381.5,
                "output_tokens": 3,
                "replay": {"trace_block_size": 16, "input_length": 15, "input_sequence_hashes": [1549729496416048079]},
            },
        },
    }
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bodies", BODY),
        ("mooncake", MOONCAKE),
        ("anonymized", ANONYMIZED),
        ("dynamo", DYNAMO),
        ("litellm", json.dumps(PAYLOAD)),
        ("litellm", json.dumps(SPEND_ROW)),
        ("vllm", lines_0_10("hello")),
        ("vllm", "\n".join(lines_0_16("hello"))),
        ("vllm", json.dumps({"log": lines_0_10("hello") + "\n", "time": "2026-02-13T11:33:33Z"})),
    ],
)
def test_the_format_is_told_behind_other_lines(tmp_path: Path, name: str, text: str) -> None:
    log = read_file(tmp_path / "log", f"\n(APIServer pid=1) INFO:     Started server process [1]\n{text}\n")
    assert log.reading.format.name == name
    assert len(log.requests) == 1


def test_dynamo_s_fields(tmp_path: Path) -> None:
    (request,) = read_file(tmp_path / "log", DYNAMO).requests
    assert (request.at_s, request.session, request.answer_tokens) == (1_779_163_048.815, "a:root", 3)
    assert request.ended_at_s == pytest.approx(request.at_s + 1.3815)
    assert (list(request.blocks), request.block_tokens, request.prompt_tokens) == ([1549729496416048079], 16, 15)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("  \n\n", "is empty"),
        (f"[{BODY}, {BODY}]", r"line 1: .*jq -c '\.\[\]'"),
        ("{\n  'a': 1\n}", r"line 1: .*jq -c \."),
        ('\n\n{"level": "info", "msg": "started"}', "line 3: an object with level, msg tells of no request"),
        ("nothing of the kind\n" * 3, "line 1: nothing here"),
    ],
)
def test_an_unknown_format_names_the_line_and_the_formats(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        read_file(tmp_path / "log", text)
    assert "empty" in why or "litellm" in str(raised.value)


def test_packed_and_from_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(f"{BODY}\n{BODY}\n".encode())
    assert len(read_file(tmp_path / "log", packed).requests) == 2
    for data in (packed, f"{BODY}\n".encode()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        reading, requests = open_log("-")
        assert read_all(reading, requests, Blocking()).requests


@pytest.mark.parametrize("cut", [5, 40])
def test_a_packed_file_that_breaks_off_is_an_error(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress("\n".join(f'{{"ts": {at}, "prompt": "{at}"}}' for at in range(99)).encode())
    with pytest.raises(ConfigError, match="cannot read"):
        read_file(tmp_path / "log", packed[:-cut])


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError) as reading:
        open_log("/nowhere/log")
    assert reading.match("cannot read /nowhere/log")


def test_broken_lines_are_counted_shown_and_left_out(tmp_path: Path) -> None:
    broken = ['{"ts": 1', "[]", '{"ts": 1}', '{"prompt": "a"}', "\udcff", "x", "y"]
    text = "\n".join([BODY, *broken, BODY])
    log = read_file(tmp_path / "log", text.encode("utf-8", "surrogateescape"))
    assert len(log.requests) == log.reading.requests == 2
    assert log.reading.broken == len(broken)
    assert [number for number, _ in log.reading.shown] == [2, 3, 4, 5, 6]
    assert "JSON" in log.reading.shown[0][1]
    assert "no time" in log.reading.shown[3][1]


def test_nothing_but_broken_lines_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"of 2 broken lines the first, line 1: it has no time"):
        read_file(tmp_path / "log", '{"prompt": "a"}\n{"prompt": "b"}\n')
    with pytest.raises(ConfigError, match=r"1 left out: it was answered by an error"):
        read_file(tmp_path / "log", '{"ts": 1, "status": 500, "prompt": "a"}\n')


def test_big_lines_are_read_and_too_big_ones_are_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = json.dumps({"ts": 1, "prompt": "x" * 2**23})
    log = read_file(tmp_path / "log", f"{BODY}\n{big}\n{BODY}\n")
    assert max(request.prompt_tokens for request in log.requests) == 2**21
    monkeypatch.setattr(lines_module, "LONGEST_LINE", 2**20)
    log = read_file(tmp_path / "log", f"{BODY}\n{big}\n{BODY}\n")
    assert (len(log.requests), log.reading.shown) == (2, [(2, "it is too long for a request")])


def test_requests_come_in_the_order_of_their_times_and_a_limit_ends_the_reading(tmp_path: Path) -> None:
    text = "\n".join(json.dumps({"ts": at, "prompt": f"{at}"}) for at in (3.5, 1.5, 2.5, 0.5))
    log = read_file(tmp_path / "log", text, limit=3)
    assert [request.at_s for request in log.requests] == [1.5, 2.5, 3.5]
    assert log.has_more
    assert log.reading.requests == 3
    assert not read_file(tmp_path / "log", text, limit=4).has_more


def test_times_rounded_to_seconds_are_spread(tmp_path: Path) -> None:
    text = "\n".join(json.dumps({"ts": at, "prompt": "a"}) for at in (10, 10, 10, 10, 11, 13, 13))
    log = read_file(tmp_path / "log", text)
    assert [request.at_s for request in log.requests] == [10, 10.25, 10.5, 10.75, 11, 13, 13.5]
    assert log.rounded_to_s == 1
    exact = "\n".join(json.dumps({"ts": at, "prompt": "a"}) for at in (10, 10, 10.5))
    assert read_file(tmp_path / "log", exact).rounded_to_s is None


def test_one_model_of_several(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(json.dumps({"ts": 1, "prompt": "a", "model": name}) for name in ("m", "n", "m")))
    reading, requests = open_log(str(path))
    log = read_all(reading, requests, Blocking(), model="m")
    assert (len(log.requests), log.models) == (2, ["m", "n"])
    assert reading.left_out == {"for another model": 1}


def test_blocks_of_another_size_are_not_mixed(tmp_path: Path) -> None:
    other = ANONYMIZED.replace('"block_size": 16', '"block_size": 32').replace("[9223372036854775807, 3]", "[5]")
    log = read_file(tmp_path / "log", f"{ANONYMIZED}\n{other}\n")
    assert len(log.requests) == 1
    assert "32 tokens" in log.reading.shown[0][1]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (MOONCAKE.replace("600", "0"), "input_length"),
        (MOONCAKE.replace("600", "400"), "--log-block-size"),
        (MOONCAKE.replace("52", "-1"), "output_length"),
        (MOONCAKE.replace("27482", "1e300"), "timestamp"),
        (ANONYMIZED.replace(": 16", ": 0"), "block_size"),
        (ANONYMIZED.replace('"input_length": 20', '"input_length": "20"'), "anonymize"),
    ],
)
def test_impossible_block_lines(tmp_path: Path, line: str, why: str) -> None:
    good = ANONYMIZED if "block_size" in line else MOONCAKE
    log = read_file(tmp_path / "log", f"{good}\n{line}\n")
    assert len(log.requests) == 1
    assert why in log.reading.shown[0][1]
