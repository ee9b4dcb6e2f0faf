"""What an emulated engine reads from a body besides the prompt; what it does not do it refuses instead of ignoring.

`stop`, sampling parameters and response formats are accepted and have no effect: the answer depends on the prompt
alone.
"""

from typing import Any, TypeVar

import msgspec

from warmroute.emulator.refusal import refused
from warmroute.openai_api import Endpoint

BodyT = TypeVar("BodyT", bound=msgspec.Struct)

_DEFAULT_COMPLETION_TOKENS = 16  # vLLM's, and OpenAI's, for /v1/completions


class StreamOptions(msgspec.Struct):
    """`stream_options` of the OpenAI API."""

    include_usage: bool | None = None


class Body(msgspec.Struct):
    """The fields of all generating endpoints; unknown ones are ignored, as by vLLM."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    ignore_eos: bool | None = None
    return_token_ids: bool | None = None
    n: int | None = None
    best_of: int | None = None
    echo: bool | None = None
    logprobs: Any = None
    top_logprobs: Any = None
    prompt_logprobs: Any = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def answer_limit(self, endpoint: Endpoint, room: int) -> int:
        """Most tokens of the answer, where `room` tokens are left in the context."""
        asked = (self.max_completion_tokens, self.max_output_tokens, self.max_tokens)
        given = next((limit for limit in asked if limit is not None), None)
        if given is None:
            return min(_DEFAULT_COMPLETION_TOKENS, room) if endpoint is Endpoint.COMPLETIONS else room
        if given < 1:
            raise refused(f"max_tokens must be at least 1, got {given}.", param="max_tokens")
        return given


def decoded(raw: bytes, kind: type[BodyT]) -> BodyT:
    """The fields of `kind` in the JSON object `raw`; others are ignored. Raises the 400 to answer with."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(f"The body cannot be read: {error}") from error


def read_body(raw: bytes) -> Body:
    """The body of a generating endpoint. Raises the 400 to answer with."""
    body = decoded(raw, Body)
    if body.stream_options is not None and not body.stream:
        raise refused("Stream options can only be defined when `stream=True`.", param="stream_options")
    for name in ("n", "best_of"):
        if getattr(body, name) not in (None, 1):
            raise refused(f"{name} above 1 is not emulated.", param=name)
    for name in ("echo", "logprobs", "top_logprobs", "prompt_logprobs"):
        if getattr(body, name) not in (None, False):
            raise refused(f"{name} is not emulated.", param=name)
    return body
