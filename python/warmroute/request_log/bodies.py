"""Requests' bodies with the time at which they came, one JSON object a line, as gateways and clients log them.

    {"timestamp": "2026-02-13T11:33:33Z", "body": {"model": "m", "messages": [...]}, "usage": {"completion_tokens": 90}}
    {"ts": 1771000000.5, "path": "/v1/completions", "request": "{\\"prompt\\": ...}", "response": {"usage": {...}}}
    {"time": 1771000000512, "model": "m", "messages": [...]}

Bodies are OpenAI's (chat, completions, responses), Anthropic's (messages) or the engines' own; they may be wrapped, and
be an object or a text. An answer, or its usage, tells lengths where it is there.
"""

from collections.abc import Sequence
from typing import Any

from warmroute.openai_api import Endpoint, Prompt, read_prompt
from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.fields import (
    answer_count,
    first,
    inner,
    json_object,
    lasting,
    name_in,
    prompt_count,
    time_in,
)
from warmroute.request_log.logged import Logged
from warmroute.request_log.request import BrokenLine, LeftOut, LoggedRequest, ToldPrompt

TIMES = ("timestamp", "time", "ts", "created_at", "start_time", "startTime", "request_time", "@timestamp", "created")
_ENDS = ("end_time", "endTime", "ended_at", "completed_at")
_WRAPPERS = ("body", "request_body", "requestBody", "request", "payload", "data", "json", "input")
_ANSWERS = ("response", "response_body", "responseBody", "answer")
_PATHS = ("path", "url", "uri", "endpoint", "route")
_SESSIONS = ("session_id", "sessionId", "session", "conversation_id", "thread_id")
_SESSION_HEADERS = ("x-session-id", "X-Session-Id", "session_id", "x-session-affinity")
_USERS = ("user", "user_id", "userId", "end_user", "tenant", "tenant_id", "customer_id")
_USER_HEADERS = ("x-user-id", "X-User-Id", "x-tenant-id", "X-Tenant-Id")
_APPLICATIONS = ("application", "app", "service", "service_name", "agent", "agent_name", "app_name")
_APPLICATION_HEADERS = ("x-application", "X-Application", "x-title", "X-Title")
_STATUSES = ("status", "status_code", "statusCode", "response_status")
_ENDPOINTS = {
    "/chat/completions": Endpoint.CHAT,
    "/completions": Endpoint.COMPLETIONS,
    "/responses": Endpoint.RESPONSES,
    "/messages": Endpoint.MESSAGES,
    "/inference/v1/generate": Endpoint.TOKENS,
    "/generate": Endpoint.GENERATE,
    "/embeddings": Endpoint.EMBEDDINGS,
}
_DEEPEST = 4
# Fields of Anthropic's bodies that OpenAI's chat does not have.
_ANTHROPIC = ("system", "anthropic_version", "anthropic_beta", "stop_sequences", "thinking")


class BodiesReader:
    """Reads one line after the other."""

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The prompts of a line, several where its body is a batch. Raises BrokenLine and LeftOut."""
        body, levels = _unwrapped(json_object(line))
        at_s = _time(levels)
        if at_s is None:
            raise BrokenLine(f"it has no time: none of {', '.join(TIMES)}")
        _check_status(levels)
        usage = _usage(levels)
        return requests_of(
            parsed(body, _path(levels)),
            at_s,
            session=_session(levels),
            ended_at_s=_end(levels, at_s),
            prompt_tokens=prompt_count(usage),
            answer_tokens=answer_count(usage),
        )

    def rest(self) -> Sequence[LoggedRequest]:
        """Nothing is kept back."""
        return ()


def read_bodies(line: bytes) -> Sequence[Logged]:
    """The body of a line, with what is around it. Raises BrokenLine and LeftOut."""
    body, levels = _unwrapped(json_object(line))
    _check_status(levels)
    return (
        Logged(
            body,
            path=_path(levels),
            at_s=_time(levels),
            session=_session(levels),
            user=_named(levels, _USERS, _USER_HEADERS),
            application=_named(levels, _APPLICATIONS, _APPLICATION_HEADERS),
        ),
    )


def fits(fields: JsonObject) -> bool:
    """Whether a line's object holds a body somewhere."""
    try:
        _unwrapped(fields)
    except BrokenLine:
        return False
    return True


def parsed(body: JsonObject, path: str | None) -> Prompt:
    """A body as the engine reads it. Raises BrokenLine where it has no prompt that can be told."""
    prompt = read_prompt(endpoint_in(body, path), body)
    if prompt.problem is not None:
        raise BrokenLine(prompt.problem)
    if not prompt.contents:
        raise BrokenLine(f"its prompt cannot be told: {prompt.untold}")
    return prompt


def requests_of(
    prompt: Prompt,
    at_s: float,
    *,
    session: str | None,
    ended_at_s: float | None,
    prompt_tokens: int | None,
    answer_tokens: int | None,
) -> list[LoggedRequest]:
    """One request for each prompt of a body; what is counted for all is shared out evenly."""
    many = len(prompt.contents)
    return [
        LoggedRequest(
            at_s=at_s,
            prompt=ToldPrompt(content, prompt.model, prompt.namespace.salt, prompt.exact),
            prompt_tokens=prompt_tokens if many == 1 else None,
            answer_tokens=None if answer_tokens is None else answer_tokens // many,
            max_tokens=prompt.max_tokens,
            session=session or prompt.session,
            ended_at_s=ended_at_s,
        )
        for content in prompt.contents
    ]


def _unwrapped(fields: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """The body in a line, and all objects on the way to it, the outermost first and the body itself last."""
    levels = [fields]
    while not holds_prompt(levels[-1]):
        deeper = inner(levels[-1], *_WRAPPERS)
        if not deeper or len(levels) == _DEEPEST:
            raise BrokenLine("it has no body with messages, a prompt or an input")
        levels.append(deeper)
    return levels[-1], levels


def holds_prompt(fields: JsonObject) -> bool:
    """Whether an object is a request's body itself, not an envelope around one."""
    if any(isinstance(fields.get(name), list) for name in ("messages", "prompt", "input", "input_ids", "token_ids")):
        return True
    if isinstance(fields.get("prompt"), str):
        return True
    text = fields.get("input")
    if isinstance(text, str):
        return not text.lstrip().startswith("{")
    return isinstance(fields.get("text"), str) and "sampling_params" in fields


def _time(levels: Sequence[JsonObject]) -> float | None:
    return next((at_s for level in levels if (at_s := time_in(level, *TIMES)) is not None), None)


def _path(levels: Sequence[JsonObject]) -> str | None:
    return next((path for level in levels if isinstance(path := first(level, _PATHS), str)), None)


def _end(levels: Sequence[JsonObject], at_s: float) -> float | None:
    for level in levels:
        ended_at_s = time_in(level, *_ENDS)
        if ended_at_s is not None:
            return max(ended_at_s, at_s)
    took_s = lasting(levels[0], ("duration_s", "duration", "latency_s", "latency"), ("duration_ms", "latency_ms"))
    return None if took_s is None else at_s + took_s


def _check_status(levels: Sequence[JsonObject]) -> None:
    answer = inner(levels[0], *_ANSWERS)
    for level in (*levels, answer):
        status = first(level, _STATUSES)
        if isinstance(status, int) and status >= 400:
            raise LeftOut("it was answered by an error")


def _usage(levels: Sequence[JsonObject]) -> JsonObject:
    for level in levels:
        answer = inner(level, *_ANSWERS)
        for holder in (level, answer, inner(answer, "body")):
            usage = inner(holder, "usage")
            if usage:
                return usage
    return {}


def _session(levels: Sequence[JsonObject]) -> str | None:
    return _named(levels[:-1] or levels, _SESSIONS, _SESSION_HEADERS)


def _named(levels: Sequence[JsonObject], names: Sequence[str], headers: Sequence[str]) -> str | None:
    """The first name that a level, or the headers in it, gives."""
    for level in levels:
        name = name_in(level, *names) or name_in(inner(level, "headers", "request_headers"), *headers)
        if name is not None:
            return name
    return None


def endpoint_in(body: JsonObject, path: str | None) -> Endpoint:
    """The endpoint that a body was sent to; without a path, as its fields tell."""
    if path is not None:
        bare = path.partition("?")[0].partition("#")[0].rstrip("/")
        for ending, endpoint in _ENDPOINTS.items():
            if bare.endswith(ending):
                return endpoint
    if isinstance(body.get("messages"), list):
        return Endpoint.MESSAGES if _is_anthropic(body) else Endpoint.CHAT
    if body.get("prompt") is not None:
        return Endpoint.COMPLETIONS
    if body.get("input") is not None:
        return Endpoint.EMBEDDINGS if _is_embedded(body["input"]) else Endpoint.RESPONSES
    return Endpoint.TOKENS if body.get("token_ids") is not None else Endpoint.GENERATE


def _is_embedded(value: Any) -> bool:
    """Whether an input is a list of texts or ids; that of the responses endpoint is one text, or a list of items."""
    return isinstance(value, list) and bool(value) and not isinstance(value[0], dict)


def _is_anthropic(body: JsonObject) -> bool:
    return any(body.get(name) is not None for name in _ANTHROPIC) or str(body.get("model", "")).startswith("claude")
