"""A request before it is written in a dialect: what an application asks a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """parameters: a JSON schema; its keys are sent in their order."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, in an answer."""

    call_id: str
    name: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Message:
    """role: `user`, `assistant` or `tool`. call_id: of the call whose result this is. image: an address."""

    role: str
    text: str
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """at_s: seconds since 1970. fields: of the body, beside the prompt. session, user: as an envelope names them."""

    at_s: float
    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    documents: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    session: str | None = None
    user: str | None = None

    @property
    def last(self) -> Message:
        """What is new in it, as a rule."""
        return self.messages[-1]
