"""Request bodies from files: one as a whole, or one a line, as clients log them and batch APIs take them."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from warmroute.errors import ConfigError
from warmroute.openai_api import Endpoint, endpoint_of, guess_endpoint


@dataclass(frozen=True, slots=True)
class NamedBody:
    """A request's body, the name to show for it, and the path it was for; None where the body has to tell."""

    name: str
    body: bytes
    path: str | None = None

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint. Raises ConfigError where it cannot be told."""
        endpoint = guess_endpoint(self.body) if self.path is None else endpoint_of(self.path)
        if endpoint is not Endpoint.OTHER:
            return endpoint
        if self.path is not None:
            raise ConfigError(f"{self.path} takes no prompt that is read here; --path /v1/chat/completions does")
        raise ConfigError(f"{self.name} has no messages, prompt or input; name its endpoint with --path /v1/...")


def read_bodies(names: Sequence[str], *, path: str | None, as_text: bool) -> list[NamedBody]:
    """The bodies in files; `-` is standard input. Raises ConfigError.

    `as_text`: the files hold the prompts themselves, not bodies. `path`: for which endpoint all of them are.
    """
    return [body for name in names for body in _bodies(name, path, as_text)]


def _bodies(name: str, path: str | None, as_text: bool) -> Iterator[NamedBody]:
    data = content_of(name)
    if as_text:
        yield NamedBody(name, _completion(data, name), "/v1/completions")
        return
    if isinstance(_decoded(data), dict):
        yield _body(name, data, path)
        return
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    if not lines:
        raise ConfigError(f"{name} is empty")
    for number, line in lines:
        where = name if len(lines) == 1 else f"{name}:{number}"
        yield _body(where, line, path)


def _body(where: str, data: bytes, path: str | None) -> NamedBody:
    """A body, or a line of OpenAI's batch format: `{"custom_id": ..., "url": "/v1/...", "body": {...}}`."""
    value = _decoded(data)
    if not isinstance(value, dict):
        raise ConfigError(f"{where} is not a JSON object; --text takes a file as a plain text")
    wrapped, url = value.get("body"), value.get("url")
    if isinstance(wrapped, dict) and isinstance(url, str):
        return NamedBody(where, msgspec.json.encode(wrapped), path or url)
    return NamedBody(where, data, path)


def _completion(data: bytes, name: str) -> bytes:
    try:
        return msgspec.json.encode({"prompt": data.decode()})
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{name} is not a text in UTF-8: {exc}") from exc


def _decoded(data: bytes) -> Any:
    """The JSON in `data`; None where it is none."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        pass  # Python's reader takes more, and the engines use it.
    except RecursionError:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def content_of(name: str) -> bytes:
    """What is in a file; `-` is standard input. Raises ConfigError."""
    try:
        if name == "-":
            return sys.stdin.buffer.read()
        with open(name, "rb") as file:
            return file.read()
    except OSError as exc:
        raise ConfigError(f"cannot read {name}: {exc.strerror}") from exc
