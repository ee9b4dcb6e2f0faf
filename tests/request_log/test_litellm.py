"""LiteLLM's logs."""

import json
from typing import Any

import pytest

from request_log.reads import content_of, read_lines_of
from warmroute.openai_api import ChatContent, TextContent
from warmroute.request_log.litellm import LiteLlmReader, fits
from warmroute.request_log.request import BrokenLine, LeftOut, LoggedRequest

MESSAGES = [{"role": "user", "content": "hello"}]
PAYLOAD: dict[str, Any] = {
    "id": "chatcmpl-1",
    "trace_id": "t-1",
    "call_type": "acompletion",
    "status": "success",
    "cache_hit": None,
    "startTime": 1_770_982_413.25,
    "endTime": 1_770_982_415.25,
    "model": "qwen3",
    "model_group": "chat",
    "model_parameters": {"max_tokens": 30, "tools": [{"type": "function", "function": {"name": "f"}}]},
    "messages": MESSAGES,
    "prompt_tokens": 12,
    "completion_tokens": 88,
    "total_tokens": 100,
    "response": {"usage": {"prompt_tokens": 12, "completion_tokens": 88}},
    "metadata": {"user_api_key_hash": "88dc28"},
}
SPEND_ROW: dict[str, Any] = {
    "request_id": "chatcmpl-2",
    "api_key": "88dc28",
    "call_type": "acompletion",
    "startTime": "2026-02-13T11:33:33.250000",
    "endTime": "2026-02-13T11:33:35.250000+00:00",
    "model": "qwen3",
    "messages": {},
    "proxy_server_request": json.dumps({"model": "chat", "messages": MESSAGES, "max_tokens": 30}),
    "prompt_tokens": 12,
    "completion_tokens": 88,
    "session_id": "s-1",
    "metadata": "{}",
}


def one(fields: dict[str, Any]) -> LoggedRequest:
    (request,) = read_lines_of(LiteLlmReader(), json.dumps(fields))
    return request


@pytest.mark.parametrize("fields", [PAYLOAD, {"standard_logging_object": PAYLOAD}, SPEND_ROW])
def test_a_call(fields: dict[str, Any]) -> None:
    assert fits(fields)
    request = one(fields)
    content = content_of(request)
    assert isinstance(content, ChatContent)
    assert content.messages == MESSAGES
    assert (request.at_s, request.ended_at_s) == (1_770_982_413.25, 1_770_982_415.25)
    assert (request.prompt_tokens, request.answer_tokens, request.max_tokens) == (12, 88, 30)
    assert getattr(request.prompt, "model", None) == "chat"


def test_tools_are_of_the_prompt() -> None:
    content = content_of(one(PAYLOAD))
    assert isinstance(content, ChatContent)
    assert content.tools == PAYLOAD["model_parameters"]["tools"]


@pytest.mark.parametrize(
    ("more", "session"),
    [
        ({}, "t-1"),
        ({"litellm_session_id": "a"}, "a"),
        ({"metadata": {"litellm_session_id": "b"}}, "b"),
        ({"metadata": {"requester_metadata": {"session_id": "c"}}}, "c"),
    ],
)
def test_sessions(more: dict[str, Any], session: str) -> None:
    assert one({**PAYLOAD, **more}).session == session


def test_completions_and_responses() -> None:
    text = {**PAYLOAD, "call_type": "atext_completion", "messages": [{"role": "user", "content": "once"}]}
    assert content_of(one(text)) == TextContent("once")
    content = content_of(one({**PAYLOAD, "call_type": "aresponses", "messages": "hi", "model_parameters": {}}))
    assert isinstance(content, ChatContent)
    assert content.messages == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("more", "why"),
    [({"status": "failure"}, "failed"), ({"cache_hit": True}, "cache"), ({"cache_hit": "True"}, "cache")],
)
def test_calls_that_reached_no_engine_are_left_out(more: dict[str, Any], why: str) -> None:
    with pytest.raises(LeftOut, match=why):
        one({**PAYLOAD, **more})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"messages": None}, "store_prompts_in_spend_logs"),
        ({"messages": {}}, "store_prompts_in_spend_logs"),
        ({"messages": [{"role": "user", "content": "redacted-by-litellm"}]}, "turn_off_message_logging"),
        ({"startTime": None}, "startTime"),
        ({"startTime": "soon"}, "time"),
    ],
)
def test_what_cannot_be_used_is_told_why(more: dict[str, Any], why: str) -> None:
    with pytest.raises(BrokenLine, match=why):
        one({**PAYLOAD, **more})
