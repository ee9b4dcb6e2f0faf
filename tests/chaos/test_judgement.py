"""What the judge lets pass, and what it does not: an answer, one clear error, or a violation."""

import json

import pytest
from chaos.asks import CHAT, COMPLETIONS, MESSAGES, Ask
from chaos.judgement import LIE_HEADER, WORKER_HEADER, End, events_of, judge, judge_refusal
from chaos.wire import Response

_STREAM = Ask(COMPLETIONS, b"{}", stream=True)
_PLAIN = Ask(CHAT, b"{}", stream=False)
_FROM_WORKER = {WORKER_HEADER: "w-000001"}


def test_the_engines_answer_is_whole_whatever_its_cache_counted() -> None:
    expected = _json(200, {"id": "a", "choices": ["text"], "usage": {"cached_tokens": 0}})
    answer = _json(200, {"usage": {"cached_tokens": 64}, "id": "a", "choices": ["text"]})
    assert judge(_PLAIN, answer, expected).end is End.WHOLE


def test_another_text_or_another_id_is_a_violation() -> None:
    expected = _json(200, {"id": "a", "choices": ["text"]})
    assert judge(_PLAIN, _json(200, {"id": "a", "choices": ["tex"]}), expected).end is End.VIOLATION
    assert judge(_PLAIN, _json(200, {"id": "b", "choices": ["text"]}), expected).end is End.VIOLATION


def test_no_answer_at_all_is_a_violation() -> None:
    assert judge(_PLAIN, Response(broken="reset"), _json(200, {})).end is End.VIOLATION


def test_a_plain_answer_that_is_seen_to_be_cut_is_no_violation() -> None:
    cut = Response(200, {"content-type": "application/json"}, b'{"id"', whole=False)
    assert judge(_PLAIN, cut, _json(200, {"id": "a"})).end is End.CUT


def test_a_whole_stream() -> None:
    assert judge(_STREAM, _stream("one", "two", "[DONE]"), _stream("one", "two", "[DONE]")).end is End.WHOLE


@pytest.mark.parametrize(
    ("came", "whole"),
    [
        (("one", "two"), True),  # silently short
        (("one",), False),  # broken off, and no word of it
        ((), False),  # a head, and no event
        ((), True),
        (("one", "two", "[DONE]", "[DONE]"), True),
        (("one", "[DONE]"), True),  # an event is missing
    ],
)
def test_a_stream_that_ends_otherwise_without_an_error_is_a_violation(came: tuple[str, ...], whole: bool) -> None:
    assert judge(_STREAM, _stream(*came, whole=whole), _stream("one", "two", "[DONE]")).end is End.VIOLATION


def test_one_error_event_at_the_end_is_a_clear_error() -> None:
    expected = _stream("one", "two", "[DONE]")
    assert judge(_STREAM, _stream("one", _ERROR), expected).end is End.ERROR_EVENT
    assert judge(_STREAM, _stream(_ERROR), expected).end is End.ERROR_EVENT


@pytest.mark.parametrize(
    "came", [("one", "E", "E"), ("one", "E", "[DONE]"), ("zwei", "E"), ("one", "two", "three", "E")]
)
def test_a_second_error_anything_after_it_or_wrong_text_before_it_is_a_violation(came: tuple[str, ...]) -> None:
    answer = _stream(*(_ERROR if each == "E" else each for each in came))
    assert judge(_STREAM, answer, _stream("one", "two", "[DONE]")).end is End.VIOLATION


def test_an_event_torn_by_the_workers_end_may_stand_before_the_error() -> None:
    expected = _stream('{"text": "one"}', '{"text": "two"}')
    body = b'data: {"text": "one"}\n\ndata: {"te\n\ndata: ' + _ERROR.encode() + b"\n\n"
    assert judge(_STREAM, _event_stream(body), expected).end is End.ERROR_EVENT


def test_messages_want_their_own_error_event() -> None:
    ask, expected = Ask(MESSAGES, b"{}", stream=True), _stream("one")
    right = b'event: error\ndata: {"type": "error", "error": {"type": "api_error", "message": "gone"}}\n\n'
    assert judge(ask, _event_stream(right), expected).end is End.ERROR_EVENT
    assert judge(ask, _stream(_ERROR), expected).end is End.VIOLATION


def test_an_error_in_place_of_an_answer_has_to_be_json_that_tells_it() -> None:
    expected = _json(200, {"id": "a"})
    error = {"error": {"message": "no worker", "type": "x", "code": "no_worker"}}
    assert judge(_PLAIN, _json(503, error), expected) == judge_refusal(_json(503, error), (503,), CHAT)
    assert judge(_PLAIN, _json(503, error), expected).end is End.REFUSED
    assert judge(_PLAIN, _json(503, {"detail": "no"}), expected).end is End.VIOLATION
    assert judge(_PLAIN, Response(503, {}, b"<html>", whole=True), expected).end is End.VIOLATION
    assert judge(_PLAIN, _json(400, error), expected).end is End.VIOLATION, "the request is one that an engine takes"


def test_the_routers_own_errors_speak_the_endpoints_dialect() -> None:
    openai = {"error": {"message": "too large", "code": "body_too_large"}}
    assert judge_refusal(_json(413, openai), (413,), CHAT).end is End.REFUSED
    assert judge_refusal(_json(413, openai), (413,), MESSAGES).end is End.VIOLATION
    assert judge_refusal(_json(413, openai, _FROM_WORKER), (413,), MESSAGES).end is End.REFUSED
    assert judge_refusal(_json(413, {"type": "error", **openai}), (413,), MESSAGES).end is End.REFUSED


def test_a_bad_request_must_be_refused_as_such() -> None:
    assert judge_refusal(_json(200, {}), (413,), CHAT).end is End.VIOLATION
    assert judge_refusal(Response(), (413,), CHAT).end is End.VIOLATION


def test_no_router_can_see_that_a_declared_length_is_a_lie() -> None:
    short = _json(200, {"id": "a"}, {LIE_HEADER: "short-length"})
    short.body = short.body[:3]
    assert judge(_PLAIN, short, _json(200, {"id": "a"})).end is End.UNSEEN_LIE


def test_events_are_read_with_names_comments_and_line_breaks_of_either_kind() -> None:
    events = events_of(b': keep\n\nevent: a\r\ndata: {"x": 1}\r\n\r\ndata: one\ndata: two\n\ndata: to')
    assert [(event.name, event.data) for event in events] == [("a", '{"x": 1}'), ("", "one\ntwo"), ("torn", "data: to")]


_ERROR = '{"error": {"message": "the worker is gone", "code": "worker_lost"}}'


def _json(status: int, value: object, headers: dict[str, str] | None = None) -> Response:
    return Response(status, {"content-type": "application/json", **(headers or {})}, json.dumps(value).encode(), True)


def _stream(*data: str, whole: bool = True) -> Response:
    return _event_stream("".join(f"data: {each}\n\n" for each in data).encode(), whole=whole)


def _event_stream(body: bytes, *, whole: bool = True) -> Response:
    return Response(200, {"content-type": "text/event-stream"}, body, whole)
