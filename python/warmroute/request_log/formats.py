"""The formats of logs that can be read, and which of them a log has."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol

from warmroute.config import nearest
from warmroute.errors import ConfigError
from warmroute.openai_api.prompt import JsonObject
from warmroute.request_log import anonymized, bodies, dynamo, har, litellm, mooncake, opentelemetry, vllm
from warmroute.request_log.body_reader import BodyReader, ReadBodies
from warmroute.request_log.fields import json_object
from warmroute.request_log.request import BrokenLine, LoggedRequest

# Servers write a page of other things before their first request.
_LOOKED_AT = 2_000

Line = tuple[int, bytes | None]
"""Number and bytes; None in place of the bytes of one that is too long."""


class LineReader(Protocol):
    """Reads a log of one format, a line at a time; several lines may be needed for a request."""

    def read(self, line: bytes) -> Sequence[LoggedRequest]:
        """What is told once this line is read. Raises BrokenLine and LeftOut."""

    def rest(self) -> Sequence[LoggedRequest]:
        """What has been kept back, at the end of the log."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A format by its name. `reader` takes the tokens that a block's name stands for where the log does not say.

    read_bodies: the bodies of a line; None where the format keeps none.
    """

    name: str
    about: str
    fits: Callable[[JsonObject], bool] | None
    reader: Callable[[int], LineReader]
    read_bodies: ReadBodies | None = None

    def takes(self, line: bytes, fields: JsonObject | None) -> bool:
        """Whether a line, and the JSON object in it, is of this format."""
        if self.fits is None:
            return vllm.fits(line)
        return fields is not None and self.fits(fields)


FORMATS: Sequence[LogFormat] = (
    LogFormat(
        "anonymized", "what 'warmroute anonymize' wrote", anonymized.fits, lambda _: anonymized.AnonymizedReader()
    ),
    LogFormat("mooncake", "Mooncake's JSONL of hash_ids", mooncake.fits, mooncake.MooncakeReader),
    LogFormat("dynamo", "Dynamo's request traces", dynamo.fits, lambda _: dynamo.DynamoReader()),
    LogFormat(vllm.NAME, "vLLM's log, with --enable-log-requests", None, lambda _: vllm.VllmReader()),
    LogFormat(
        "litellm",
        "LiteLLM's StandardLoggingPayload, or spend logs",
        litellm.fits,
        lambda _: litellm.LiteLlmReader(),
        litellm.read_bodies,
    ),
    LogFormat(
        "opentelemetry",
        "OpenTelemetry's spans of generative AI",
        opentelemetry.fits,
        lambda _: BodyReader(opentelemetry.read_bodies),
        opentelemetry.read_bodies,
    ),
    LogFormat(har.NAME, "HTTP archives", har.fits, lambda _: BodyReader(har.read_bodies), har.read_bodies),
    LogFormat(
        "bodies",
        "JSONL of OpenAI or Anthropic bodies with times",
        bodies.fits,
        lambda _: bodies.BodiesReader(),
        bodies.read_bodies,
    ),
)


def format_named(name: str) -> LogFormat:
    """The format of this name. Raises ConfigError."""
    for each in FORMATS:
        if each.name == name:
            return each
    raise ConfigError(f"there is no log format '{name}'{nearest(name, [each.name for each in FORMATS])}")


def detected(name: str, lines: Iterator[Line]) -> tuple[LogFormat, Iterator[Line]]:
    """The format of a log, told from the first line that has one, and all of its lines.

    name: of the log, for the error. ConfigError where none of the first lines has one, naming the first.
    """
    looked_at = list[Line]()
    for number, line in islice(lines, _LOOKED_AT):
        looked_at.append((number, line))
        found = None if line is None else _format_of(line)
        if found is not None:
            return found, chain(looked_at, lines)
    if not looked_at:
        raise ConfigError(f"{name} is empty")
    number, line = looked_at[0]
    raise ConfigError(
        f"{name}, line {number}: {_seems(line)}; known formats: "
        + ", ".join(f"{each.name} ({each.about})" for each in FORMATS)
    )


def _format_of(line: bytes) -> LogFormat | None:
    fields: JsonObject | None = None
    if line.lstrip().startswith(b"{"):
        try:
            fields = json_object(line)
        except BrokenLine:
            return None
    return next((each for each in FORMATS if each.takes(line, fields)), None)


def _seems(line: bytes | None) -> str:
    if line is None:
        return "it is too long for a request"
    head = line.lstrip()[:1]
    if head == b"[":
        return "it begins an array; one object a line is read (jq -c '.[]' makes that of an array)"
    if head == b"{":
        try:
            fields = json_object(line)
        except BrokenLine as error:
            return f"{error} (one object a line is read; jq -c . makes that of indented ones)"
        return f"an object with {', '.join(sorted(fields)[:8]) or 'nothing in it'} tells of no request"
    return "nothing here tells of a request"
