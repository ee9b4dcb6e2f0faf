"""What is taken out of a log, and what stays."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from request_log.reads import read_file
from request_log.test_litellm import PAYLOAD
from request_log.test_vllm import lines_0_10
from warmroute.request_log import Blocking
from warmroute.simulator.logs import Anonymizer, LogRequests, reuse_curve
from warmroute.simulator.workloads import trace_file

WINDOW = 8
KEYS = {"timestamp", "input_length", "output_length", "hash_ids", "block_size", "session", "duration", "max_tokens"}


def anonymized(log: LogRequests, salt: bytes = b"salt", keep_times: bool = False) -> bytes:
    return b"".join(Anonymizer(salt, keep_times).lines(log.requests))


def values_of(written: bytes) -> bytes:
    """What is written, without the names of its own fields."""
    for key in sorted(KEYS | {"estimated", "output_guessed"}, key=len, reverse=True):
        written = written.replace(f'"{key}":'.encode(), b"")
    return written


def conversation_lines() -> list[dict[str, Any]]:
    """Sessions that grow behind a common system prompt, with everything in them that a gateway logs."""
    rng = random.Random(5)
    words = ["acquisition", "patient", "Müller", "invoice", "42 Elm Street", "diagnosis", "quarterly", "password"]
    system = " ".join(rng.choices(words, k=200))
    lines: list[dict[str, Any]] = []
    for session in range(6):
        messages = [{"role": "system", "content": system}]
        for turn in range(5):
            messages = [*messages, {"role": "user", "content": " ".join(rng.choices(words, k=30))}]
            lines.append(
                {
                    "timestamp": 1_770_982_413.125 + turn * 60 + session * 7,
                    "request": {
                        "url": "https://gateway.internal/v1/chat/completions",
                        "headers": {"authorization": "Bearer sk-live-abcdef123456", "x-session-id": f"sess-{session}x"},
                        "body": {"model": "corp/secret-model", "messages": messages, "user": "alice@example.org"},
                    },
                    "response": {"id": "chatcmpl-77aa", "usage": {"completion_tokens": 40 + turn}},
                    "duration_ms": 2_500,
                }
            )
            messages = [*messages, {"role": "assistant", "content": " ".join(rng.choices(words, k=20))}]
    return lines


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in texts_of(part)]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_no_text_of_the_log_is_in_what_is_written(tmp_path: Path) -> None:
    lines = conversation_lines()
    log = read_file(tmp_path / "log", "\n".join(map(json.dumps, lines)))
    written = anonymized(log)
    windows = {text.encode()[at : at + WINDOW] for text in texts_of(lines) for at in range(len(text.encode()) - 7)}
    assert len(windows) > 400
    assert [window for window in windows if window in values_of(written)] == []
    assert b"1770982" not in written
    for line in written.splitlines():
        fields = json.loads(line)
        assert set(fields) <= KEYS | {"estimated", "output_guessed"}
        numbers = [value for value in fields.values() if not isinstance(value, list)]
        assert all(isinstance(number, int | float) for number in [*numbers, *fields["hash_ids"]])


@pytest.mark.parametrize("kind", ["litellm", "vllm", "ids"])
def test_nor_of_logs_of_other_formats(tmp_path: Path, kind: str) -> None:
    text = "the patient Müller has paid invoice 4711 in Elm Street"
    line = {
        "litellm": json.dumps({**PAYLOAD, "messages": [{"role": "user", "content": text}]}),
        "vllm": lines_0_10(text),
        "ids": json.dumps({"ts": 1, "prompt": [900_000_000 + at for at in range(40)]}),
    }[kind]
    written = anonymized(read_file(tmp_path / "log", line))
    windows = {line.encode()[at : at + WINDOW] for at in range(len(line.encode()) - 7)}
    assert [window for window in windows if window in values_of(written)] == []


def test_reuse_is_the_same_in_both(tmp_path: Path) -> None:
    log = read_file(tmp_path / "log", "\n".join(map(json.dumps, conversation_lines())))
    other = read_file(tmp_path / "anonymized", anonymized(log))
    assert other.reading.format.name == "anonymized"
    one, two = (
        reuse_curve(each.requests, [each.answer_tokens or 0 for each in each.requests]) for each in (log, other)
    )
    assert one == two
    assert one.reusable_share > 0.5
    assert one.sessions == 6


def test_lengths_times_and_sessions_stay(tmp_path: Path) -> None:
    log = read_file(tmp_path / "log", "\n".join(map(json.dumps, conversation_lines())))
    other = read_file(tmp_path / "anonymized", anonymized(log))
    begin_s = log.requests[0].at_s
    for one, two in zip(log.requests, other.requests, strict=True):
        assert two.at_s == pytest.approx(one.at_s - begin_s, abs=1e-3)
        assert (two.prompt_tokens, two.answer_tokens, two.estimated) == (one.prompt_tokens, one.answer_tokens, True)
        assert (two.ended_at_s or 0) - two.at_s == pytest.approx(2.5)
    names = [(one.session, two.session) for one, two in zip(log.requests, other.requests, strict=True)]
    assert len(set(names)) == 6
    assert names[0] == ("sess-0x", "0")


def test_times_are_kept_where_that_is_asked(tmp_path: Path) -> None:
    log = read_file(tmp_path / "log", json.dumps({"ts": 1_770_982_413.125, "prompt": "a"}))
    assert json.loads(anonymized(log, keep_times=True))["timestamp"] == 1_770_982_413_125
    assert json.loads(anonymized(log))["timestamp"] == 0


def test_ids_depend_on_the_salt_alone(tmp_path: Path) -> None:
    log = read_file(tmp_path / "log", json.dumps({"ts": 1, "prompt": "a" * 640}))
    one, same, other = (json.loads(anonymized(log, salt))["hash_ids"] for salt in (b"x", b"x", b"y"))
    assert one == same
    assert not set(one) & set(other)
    assert not set(one) & set(log.requests[0].blocks)
    assert all(0 <= each < 2**63 for each in one)


def test_answers_that_are_not_logged_are_marked_as_guesses(tmp_path: Path) -> None:
    bodies = [
        {"ts": 1, "prompt": "a"},
        {"ts": 2, "prompt": "a", "usage": {"completion_tokens": 30}},
        {"ts": 3, "prompt": "a", "max_tokens": 77},
        {"ts": 4, "prompt": "a"},
    ]
    log = read_file(tmp_path / "log", "\n".join(map(json.dumps, bodies)))
    lines = [json.loads(line) for line in anonymized(log).splitlines()]
    assert [(line["output_length"], line.get("output_guessed", False)) for line in lines] == [
        (256, True),
        (30, False),
        (77, True),
        (30, True),
    ]


def test_it_is_read_as_mooncake_s_format_too(tmp_path: Path) -> None:
    log = read_file(tmp_path / "log", "\n".join(map(json.dumps, conversation_lines())))
    path = tmp_path / "anonymized.jsonl"
    path.write_bytes(anonymized(log))
    (stage,) = trace_file(path, block_tokens=16).stages(1)
    assert len(stage.sessions) == len(log.requests)
    assert sum(len(session.turns[0].prompt) for session in stage.sessions) == sum(
        request.prompt_tokens for request in log.requests
    )


def test_smaller_blocks_find_more(tmp_path: Path) -> None:
    text = "\n".join(map(json.dumps, conversation_lines()))
    shares = []
    for size in (1, 16, 128):
        log = read_file(tmp_path / "log", text, Blocking(size))
        shares.append(reuse_curve(log.requests, [1] * len(log.requests)).reusable_share)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[2]
