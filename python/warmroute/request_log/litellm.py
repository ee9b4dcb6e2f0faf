"""LiteLLM's logs: its StandardLoggingPayload, one a line, and exported rows of its spend logs.

    {"id": "chatcmpl-1", "call_type": "acompletion", "status": "success", "startTime": 1771000000.1, "endTime": ...,
     "model": "qwen3", "messages": [...], "prompt_tokens": 5210, "completion_tokens": 88, "metadata": {...}, ...}

Prompts are there only where LiteLLM was told to keep them (`store_prompts_in_spend_logs: true` for the spend logs, no
`turn_off_message_logging`). Source: docs.litellm.ai, proxy/logging_spec, proxy/ui_logs, proxy/ui_logs_sessions.
"""

from collections.abc import Sequence
from typing import Any

from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log.bodies import parsed, requests_of
from warmroute.request_log.fields import answer_count, inner, json_object, name_in, prompt_count, time_in
from warmroute.request_log.logged import Logged
from warmroute.request_log.request import BrokenLine, LeftOut, LoggedRequest

_WRAPPERS = ("standard_logging_object", "standard_logging_payload", "message", "payload")
_SESSIONS = ("litellm_session_id", "session_id", "chat_session_id")
_USERS = ("user_api_key_end_user_id", "user_api_key_user_id")
_APPLICATIONS = ("user_api_key_alias", "user_api_key_team_alias")
_REDACTED = "redacted-by-litellm"
_PARAMETERS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "tools", "system", "cache_salt")
_PATHS = {"text_completion": "/completions", "responses": "/responses", "anthropic_messages": "/messages"}


class LiteLlmReader:
    """Reads one line after the other."""

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """The prompts of one call. Raises BrokenLine, and LeftOut for calls that reached no engine."""
        payload = _payload(json_object(line))
        at_s = time_in(payload, "startTime")
        if at_s is None:
            raise BrokenLine("it has no startTime")
        _check_outcome(payload)
        usage = {**inner(inner(payload, "response"), "usage"), **_counts(payload)}
        return requests_of(
            parsed(_body(payload), _path(payload)),
            at_s,
            session=_session(payload),
            ended_at_s=time_in(payload, "endTime"),
            prompt_tokens=prompt_count(usage),
            answer_tokens=answer_count(usage),
        )

    def rest(self) -> Sequence[LoggedRequest]:
        """Nothing is kept back."""
        return ()


def read_bodies(line: bytes) -> Sequence[Logged]:
    """The body of one call, with what is around it. Raises BrokenLine and LeftOut."""
    payload = _payload(json_object(line))
    _check_outcome(payload)
    metadata = inner(payload, "metadata")
    return (
        Logged(
            _body(payload),
            path=_path(payload),
            at_s=time_in(payload, "startTime"),
            session=_session(payload),
            user=name_in(payload, "end_user") or name_in(metadata, *_USERS),
            application=name_in(metadata, *_APPLICATIONS),
        ),
    )


def fits(fields: JsonObject) -> bool:
    """Whether a line's object is such a payload, or holds one."""
    payload = _payload(fields)
    return "startTime" in payload and ("messages" in payload or "call_type" in payload)


def _payload(fields: JsonObject) -> JsonObject:
    return fields if "startTime" in fields and "model" in fields else inner(fields, *_WRAPPERS) or fields


def _check_outcome(payload: JsonObject) -> None:
    if payload.get("status") == "failure":
        raise LeftOut("the call failed")
    if payload.get("cache_hit") in (True, "True", "true"):
        raise LeftOut("LiteLLM answered it from its own cache")


def _counts(payload: JsonObject) -> JsonObject:
    """LiteLLM's own counts; 0 is what it writes where there were none."""
    return {name: payload[name] for name in ("prompt_tokens", "completion_tokens") if payload.get(name)}


def _body(payload: JsonObject) -> JsonObject:
    asked = inner(payload, "proxy_server_request")
    asked = inner(asked, "body") or asked
    if any(asked.get(name) for name in ("messages", "prompt", "input")):
        return asked
    parameters = inner(payload, "model_parameters", "optional_params")
    body: JsonObject = {name: parameters[name] for name in _PARAMETERS if parameters.get(name) is not None}
    body["model"] = name_in(payload, "model_group", "model")
    return {**body, **_prompt(payload)}


def _prompt(payload: JsonObject) -> JsonObject:
    messages: Any = inner(payload, "messages") or payload.get("messages")
    if isinstance(messages, dict):
        messages = messages.get("messages") or messages.get("prompt") or messages.get("input")
    if not messages:
        raise BrokenLine("LiteLLM has not kept its prompt (store_prompts_in_spend_logs: true keeps prompts)")
    if _REDACTED in str(messages)[:1000]:
        raise BrokenLine("LiteLLM has redacted its prompt (turn_off_message_logging)")
    kind = _path(payload)
    if isinstance(messages, str) or kind == "/completions":
        return {"input" if kind == "/responses" else "prompt": _only_text(messages)}
    return {"input": messages} if kind == "/responses" else {"messages": messages}


def _only_text(messages: Any) -> Any:
    """The text of a completion's prompt, which LiteLLM also writes as the message of a user."""
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], dict):
        return messages[0].get("content")
    return messages


def _path(payload: JsonObject) -> str | None:
    call = str(payload.get("call_type") or "").removeprefix("a")
    return _PATHS.get(call) or _PATHS.get(f"a{call}")


def _session(payload: JsonObject) -> str | None:
    metadata = inner(payload, "metadata")
    for holder in (payload, metadata, inner(metadata, "requester_metadata")):
        name = name_in(holder, *_SESSIONS)
        if name is not None:
            return name
    return name_in(payload, "trace_id")
