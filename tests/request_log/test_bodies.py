"""Bodies with times."""

import json

import pytest

from request_log.reads import content_of, read_lines_of
from warmroute.openai_api import ChatContent, Endpoint, TextContent, TokenContent
from warmroute.request_log.bodies import BodiesReader, fits
from warmroute.request_log.request import BrokenLine, LeftOut, LoggedRequest

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 7}
WHEN = 1_770_982_413.0


def one(fields: dict[str, object]) -> LoggedRequest:
    (request,) = read_lines_of(BodiesReader(), json.dumps(fields))
    return request


@pytest.mark.parametrize("time", ["timestamp", "time", "ts", "created_at", "@timestamp"])
@pytest.mark.parametrize("wrapper", ["body", "request", "request_body"])
def test_a_wrapped_body_as_object_and_as_text(time: str, wrapper: str) -> None:
    for body in (CHAT, json.dumps(CHAT)):
        request = one({time: "2026-02-13T11:33:33Z", wrapper: body})
        assert request.at_s == WHEN
        assert request.max_tokens == 7
        assert content_of(request) == ChatContent(CHAT["messages"])  # type: ignore[arg-type]


def test_a_body_that_is_the_line_itself() -> None:
    request = one({"time": 1_770_982_413_000, **CHAT})
    assert (request.at_s, request.answer_tokens) == (WHEN, None)


def test_http_in_an_envelope() -> None:
    request = one(
        {
            "ts": WHEN,
            "request": {
                "method": "POST",
                "url": "https://h/v1/completions?x=1",
                "body": json.dumps({"prompt": "once"}),
            },
            "response": {"status": 200, "body": {"usage": {"prompt_tokens": 2, "completion_tokens": 44}}},
            "duration_ms": 1_500,
        }
    )
    assert content_of(request) == TextContent("once")
    assert (request.prompt_tokens, request.answer_tokens, request.ended_at_s) == (2, 44, WHEN + 1.5)


def test_anthropic_by_path_and_by_its_fields() -> None:
    body = {"model": "claude-x", "system": "be brief", "messages": [{"role": "user", "content": "hi"}]}
    for fields in ({"ts": 1, "body": body}, {"ts": 1, "path": "/v1/messages", "body": body}):
        content = content_of(one(fields))
        assert isinstance(content, ChatContent)
        assert content.endpoint is Endpoint.MESSAGES
        assert content.messages[0] == {"role": "system", "content": "be brief"}


def test_anthropic_usage_counts_what_its_cache_gave() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 4_000,
        "cache_creation_input_tokens": 90,
        "output_tokens": 5,
    }
    request = one({"ts": 1, "body": CHAT, "response": {"usage": usage}})
    assert (request.prompt_tokens, request.answer_tokens) == (4_100, 5)


def test_responses_and_token_ids() -> None:
    content = content_of(one({"ts": 1, "path": "/v1/responses", "body": {"instructions": "a", "input": "b"}}))
    assert isinstance(content, ChatContent)
    assert [message["content"] for message in content.messages] == ["a", "b"]
    content = content_of(one({"ts": 1, "body": {"prompt": [1, 2, 3]}}))
    assert isinstance(content, TokenContent)
    assert list(content.token_ids) == [1, 2, 3]


def test_a_batch_is_several_requests_that_share_what_is_counted() -> None:
    requests = read_lines_of(
        BodiesReader(), json.dumps({"ts": 1, "prompt": ["a", "b"], "usage": {"completion_tokens": 10}})
    )
    assert [(content_of(each), each.answer_tokens) for each in requests] == [
        (TextContent("a"), 5),
        (TextContent("b"), 5),
    ]


def test_embeddings_are_requests_too() -> None:
    requests = read_lines_of(BodiesReader(), json.dumps({"ts": 1, "body": {"model": "e", "input": ["a", "b"]}}))
    assert [content_of(each) for each in requests] == [TextContent("a"), TextContent("b")]


@pytest.mark.parametrize(
    "more",
    [
        {"session_id": "s"},
        {"headers": {"x-session-id": "s"}},
        {"body": {**CHAT, "metadata": {"session_id": "s"}}},
        {"body": {**CHAT, "prompt_cache_key": "s"}},
    ],
)
def test_sessions(more: dict[str, object]) -> None:
    assert one({"ts": 1, "body": CHAT, **more}).session == "s"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"body": CHAT}, "no time"),
        ({"ts": "soon", "body": CHAT}, "time"),
        ({"ts": 1}, "no body"),
        ({"ts": 1, "body": {"messages": []}}, "messages"),
        ({"ts": 1, "path": "/v1/responses", "body": {"input": "x", "previous_response_id": "r"}}, "kept-state"),
    ],
)
def test_what_cannot_be_used_is_told_why(fields: dict[str, object], why: str) -> None:
    with pytest.raises(BrokenLine, match=why):
        one(fields)


def test_refused_requests_are_left_out() -> None:
    for fields in ({"status": 429}, {"response": {"status_code": 503}}):
        with pytest.raises(LeftOut, match="error"):
            one({"ts": 1, "body": CHAT, **fields})


def test_what_fits() -> None:
    assert fits({"body": json.dumps(CHAT)})
    assert not fits({"message": "started", "level": "info"})
