"""Bodies out of the envelopes in which logs keep them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from warmroute.errors import ConfigError
from warmroute.request_log import open_bodies
from warmroute.request_log.logged import Logged

_BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Why?"}]}
_ENTRY = {
    "startedDateTime": "2026-02-13T11:33:33.500Z",
    "request": {
        "method": "POST",
        "url": "https://api.example.com/v1/messages?beta=true",
        "headers": [{"name": "X-Session-Id", "value": "s-1"}],
        "postData": {"mimeType": "application/json", "text": json.dumps(_BODY)},
    },
    "response": {"status": 200},
}


def _read(path: Path, text: str, format_name: str | None = None) -> list[Logged]:
    path.write_text(text)
    return list(open_bodies(str(path), format_name)[1])


def test_a_body_in_an_envelope(tmp_path: Path) -> None:
    line = {
        "ts": 1771000000.5,
        "path": "/v1/chat/completions",
        "headers": {"x-user-id": "u"},
        "app": "a",
        "body": _BODY,
    }
    assert _read(tmp_path / "log", json.dumps(line)) == [
        Logged(_BODY, "/v1/chat/completions", at_s=1771000000.5, user="u", application="a")
    ]


def test_a_body_alone_needs_no_time(tmp_path: Path) -> None:
    assert _read(tmp_path / "log", json.dumps(_BODY)) == [Logged(_BODY)]


def test_litellm(tmp_path: Path) -> None:
    payload = {"startTime": 1771000000.0, "model": "m", "call_type": "acompletion", "messages": _BODY["messages"]}
    metadata = {"user_api_key_end_user_id": "u", "user_api_key_alias": "app"}
    (logged,) = _read(tmp_path / "log", json.dumps({**payload, "metadata": metadata}))
    assert logged == Logged(_BODY, at_s=1771000000.0, user="u", application="app")


def test_vllm_prompts_are_completions(tmp_path: Path) -> None:
    line = "INFO 07-21 09:12:44 [logger.py:41] Received request c-1: prompt: 'Why?', params: SamplingParams(n=1), "
    (logged,) = _read(tmp_path / "log", line + "prompt_token_ids: None, lora_request: None.\n")
    assert logged.body == {"model": None, "prompt": "Why?"}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_http_archive(tmp_path: Path, indent: int | None) -> None:
    page = {"request": {"method": "GET", "url": "https://example.com/", "headers": []}, "response": {"status": 200}}
    failed = {**_ENTRY, "response": {"status": 500}}
    text = json.dumps({"log": {"entries": [page, _ENTRY, failed]}}, indent=indent)
    (logged,) = _read(tmp_path / "a.har", text)
    assert logged == Logged(_BODY, "/v1/messages", at_s=1770982413.5, session="s-1")


def test_a_packed_http_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.har.gz"
    path.write_bytes(gzip.compress(json.dumps({"log": {"entries": [_ENTRY]}}).encode()))
    assert len(list(open_bodies(str(path))[1])) == 1


def _attribute(name: str, value: object) -> dict[str, object]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"key": name, "value": {"stringValue": text}}


def test_spans_of_the_collector(tmp_path: Path) -> None:
    call = {"type": "tool_call", "id": "c", "name": "f", "arguments": {}}
    parts = [
        {"role": "user", "parts": [{"type": "text", "content": "Why?"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "Hm."}, call]},
    ]
    span = {
        "startTimeUnixNano": "1771000000512000000",
        "attributes": [
            _attribute("gen_ai.request.model", "m"),
            _attribute("gen_ai.conversation.id", "s"),
            _attribute("gen_ai.system_instructions", [{"type": "text", "content": "Be terse."}]),
            _attribute("gen_ai.input.messages", parts),
        ],
    }
    resource = {"attributes": [_attribute("service.name", "app")]}
    line = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span, {"attributes": []}]}]}]}
    (logged,) = _read(tmp_path / "log", json.dumps(line))
    assert (logged.session, logged.application, logged.at_s) == ("s", "app", 1771000000.512)
    assert logged.body["messages"] == [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "Why?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    ]


def test_numbered_attributes_of_a_span(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be terse.",
        "gen_ai.prompt.1.role": "user",
    }
    attributes |= {"gen_ai.prompt.1.content": "Why?", "gen_ai.request.model": "m", "user.id": "u"}
    (logged,) = _read(tmp_path / "log", json.dumps({"start_time": "2026-02-13T11:33:33Z", "attributes": attributes}))
    assert [each["content"] for each in logged.body["messages"]] == ["Be terse.", "Why?"]
    assert logged.user == "u"


def test_a_log_of_hashes_has_no_bodies(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no texts"):
        _read(tmp_path / "log", '{"timestamp": 1, "input_length": 3, "output_length": 2, "hash_ids": [1]}')


def test_broken_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"{json.dumps(_BODY)}\nnonsense\n{json.dumps({'status': 500, 'body': _BODY})}\n")
    reading, bodies = open_bodies(str(path))
    assert len(list(bodies)) == 1
    assert (reading.requests, reading.broken, sum(reading.left_out.values())) == (1, 1, 1)
