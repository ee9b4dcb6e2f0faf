"""The router's own answers: JSON bodies, errors in the dialect of the endpoint, refusals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from warmroute.errors import RefusalReason
from warmroute.openai_api import Endpoint, endpoint_of
from warmroute.router import Refusal

JSON_TYPE = ("content-type", "application/json")
RETRY_AFTER_S = 1

REFUSAL_STATUS = {
    RefusalReason.NO_WORKER_READY: 503,
    RefusalReason.UNKNOWN_MODEL: 404,
    RefusalReason.WORKERS_EXHAUSTED: 502,
    RefusalReason.QUEUE_FULL: 429,
    RefusalReason.QUEUE_DEADLINE: 503,
}

# As in Anthropic's list of errors; others are told apart by 4xx and 5xx.
_ANTHROPIC_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer made by the router."""

    status: int
    body: bytes
    headers: Sequence[tuple[str, str]] = (JSON_TYPE,)


def json_answer(value: Any, status: int = 200) -> Answer:
    """`value` as JSON with a line end, for people with curl."""
    return Answer(status, msgspec.json.encode(value) + b"\n")


def error_answer(path: str, status: int, code: str, message: str) -> Answer:
    """An error as the clients of `path` read it: OpenAI's shape, or Anthropic's for `/v1/messages`."""
    kind = "invalid_request_error" if status < 500 else "api_error"
    if endpoint_of(path) is Endpoint.MESSAGES:
        kind = _ANTHROPIC_KINDS.get(status, kind)
        return json_answer({"type": "error", "error": {"type": kind, "message": message}}, status)
    return json_answer({"error": {"message": message, "type": kind, "param": None, "code": code}}, status)


def refusal_answer(path: str, refusal: Refusal) -> Answer:
    """A refusal as status, JSON error and `x-warmroute-refused`; with Retry-After where waiting may help."""
    status = REFUSAL_STATUS[refusal.reason]
    answer = error_answer(path, status, refusal.reason.value.replace("-", "_"), refusal.detail)
    headers = [JSON_TYPE, ("x-warmroute-refused", refusal.reason.value)]
    if status in (429, 503):
        headers.append(("retry-after", str(math.ceil(refusal.retry_after_s or RETRY_AFTER_S))))
    return Answer(status, answer.body, headers)
