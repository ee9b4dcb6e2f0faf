"""What one request came to: a whole answer, one clear error, or a violation.

An answer is compared event by event with what an engine answers directly. Cached tokens differ with the engine's
cache, so `usage` is left out; everything else, ids included, must be equal.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chaos.asks import MESSAGES, Ask
from chaos.wire import Response

LIE_HEADER = "x-chaos-lie"
WORKER_HEADER = "x-warmroute-worker"
# The liar's answer is whole by HTTP's rules, so no router can tell that it is not.
_UNSEEN_LIES = ("short-length",)
# With a declared length there is no room for an error event.
_CUT_LIES = ("long-length",)


class End(StrEnum):
    """How a request ended, for its client."""

    WHOLE = "whole answer"
    REFUSED = "clear error"
    ERROR_EVENT = "error event in the stream"
    CUT = "answer cut short, visibly"
    UNSEEN_LIE = "answer whole by HTTP, though the worker lied"
    LEFT = "client left"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`why` says what is wrong, or what the error was."""

    end: End
    why: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; `value` is None where its data is no JSON, `raw` is its text without the blank line."""

    name: str
    data: str
    value: Any = None
    raw: str = ""

    @property
    def is_error(self) -> bool:
        return isinstance(self.value, dict) and ("error" in self.value and self.value["error"] is not None)

    @property
    def essence(self) -> tuple[str, str]:
        return self.name, self.data if self.value is None else _without_usage(self.value)


def judge(ask: Ask, response: Response, expected: Response) -> Judgement:
    """What `response` is, when `expected` is what an engine answers directly."""
    if response.status == 0 and response.aborted:
        return Judgement(End.CUT, "the stream was reset before the head")
    if response.status == 0:
        return _violation(f"no answer came: {response.broken or 'the connection ended'}")
    if response.status != expected.status:
        return _judge_other_status(ask, response, expected)
    return _judge_answer(ask, response, expected)


def _judge_answer(ask: Ask, response: Response, expected: Response) -> Judgement:
    """Of an answer that begins as the engine's."""
    lie = response.headers.get(LIE_HEADER, "")
    if lie in _UNSEEN_LIES and response.whole:
        return Judgement(End.UNSEEN_LIE, lie)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return _judge_stream(ask, response, events_of(expected.body), cut_is_seen=lie in _CUT_LIES)
    if not response.whole:
        return Judgement(End.CUT, response.broken)
    if _json_essence(response.body) == _json_essence(expected.body):
        return Judgement(End.WHOLE)
    return _violation("the answer differs from the engine's")


def judge_refusal(response: Response, statuses: Sequence[int], path: str) -> Judgement:
    """Of a request that must be refused with one of `statuses`."""
    if response.status == 0:
        return _violation(f"no answer to a bad request: {response.broken or 'the connection ended'}")
    if response.status == 200 and LIE_HEADER in response.headers:
        return Judgement(End.UNSEEN_LIE, response.headers[LIE_HEADER])
    if response.status not in statuses:
        return _violation(f"{response.status} where one of {list(statuses)} is right")
    return _clear_error(path, response)


def events_of(body: bytes) -> list[Event]:
    """The events of a stream; a last one without its blank line is given too, marked as torn by its name."""
    blocks = body.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n")
    events = [event for block in blocks[:-1] if (event := _event(block)) is not None]
    if blocks[-1].strip():
        events.append(Event("torn", blocks[-1], raw=blocks[-1]))
    return events


def _judge_other_status(ask: Ask, response: Response, expected: Response) -> Judgement:
    if response.status < 400:
        return _violation(f"{response.status} where the engine says {expected.status}")
    if response.status < 500 and response.status != 429:
        return _violation(f"{response.status} for a request that an engine takes")
    return _clear_error(ask.path, response)


def _clear_error(path: str, response: Response) -> Judgement:
    """One error in JSON, whole. The router's own are in the dialect of the endpoint."""
    word = f"{response.status}"
    if not response.whole:
        return Judgement(End.CUT, word)
    if response.headers.get(LIE_HEADER) in _UNSEEN_LIES:
        return Judgement(End.UNSEEN_LIE, word)
    try:
        value = json.loads(response.body)
    except ValueError:
        return _violation(f"{word} whose body is no JSON")
    if not (isinstance(value, dict) and isinstance(value.get("error"), dict) and value["error"].get("message")):
        return _violation(f"{word} whose body tells no error")
    if path == MESSAGES and WORKER_HEADER not in response.headers and value.get("type") != "error":
        return _violation(f"{word} of the router's own that is not in the dialect of {path}")
    code = value["error"].get("code")
    return Judgement(End.REFUSED, f"{word} {code}" if isinstance(code, str) else word)


def _judge_stream(ask: Ask, response: Response, expected: Sequence[Event], *, cut_is_seen: bool) -> Judgement:
    events = events_of(response.body)
    errors = [place for place, event in enumerate(events) if event.is_error]
    if not errors:
        return _judge_without_error(response, events, expected, cut_is_seen)
    if len(errors) > 1:
        return _violation("two error events in one stream")
    if errors[0] != len(events) - 1:
        return _violation("something follows the error event")
    if ask.path == MESSAGES and not (events[-1].name == "error" and events[-1].value.get("type") == "error"):
        return _violation(f"the error event is not in the dialect of {ask.path}")
    return _judge_beginning(events[:-1], expected)


def _judge_without_error(
    response: Response, events: Sequence[Event], expected: Sequence[Event], cut_is_seen: bool
) -> Judgement:
    got, right = [event.essence for event in events], [event.essence for event in expected]
    if response.whole and got == right:
        return Judgement(End.WHOLE)
    if response.whole:
        short = got == right[: len(got)]
        return _violation("a short answer that looks whole" if short else "the stream differs from the engine's")
    if cut_is_seen:
        return Judgement(End.CUT, response.broken)
    return _violation(f"the stream broke off without an error event: {response.broken}")


def _judge_beginning(before: Sequence[Event], expected: Sequence[Event]) -> Judgement:
    """What came before the error event is the beginning of the answer; the last event may have been torn."""
    got, right = [event.essence for event in before], [event.essence for event in expected]
    if got == right[: len(got)]:
        return Judgement(End.ERROR_EVENT, "after whole events")
    torn = before[-1]
    if got[:-1] == right[: len(got) - 1] and len(right) >= len(got) and _is_torn(torn, expected[len(got) - 1]):
        return Judgement(End.ERROR_EVENT, "after a torn event")
    return _violation("what came before the error event differs from the engine's")


def _is_torn(torn: Event, of: Event) -> bool:
    """Whether its text is the beginning of the engine's; where `usage` begins, the engine's own may differ."""
    right = of.raw.partition('"usage"')[0]
    return torn.value is None and (of.raw.startswith(torn.raw) or (right != of.raw and torn.raw.startswith(right)))


def _event(block: str) -> Event | None:
    """None of a comment."""
    name, data = "", []
    for line in block.split("\n"):
        key, _, value = line.partition(":")
        if key == "event":
            name = value.removeprefix(" ")
        elif key == "data":
            data.append(value.removeprefix(" "))
    if not (name or data):
        return None
    text = "\n".join(data)
    try:
        return Event(name, text, json.loads(text), block)
    except ValueError:
        return Event(name, text, raw=block)


def _json_essence(body: bytes) -> str | None:
    try:
        return _without_usage(json.loads(body))
    except ValueError:
        return None


def _without_usage(value: Any) -> str:
    return json.dumps(_strip(value), sort_keys=True)


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strip(item) for key, item in value.items() if key != "usage"}
    return [_strip(item) for item in value] if isinstance(value, list) else value


def _violation(why: str) -> Judgement:
    return Judgement(End.VIOLATION, why)
