"""A page of the router's own: who answers it, and what it takes and gives. The OpenAPI description is made of these."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from warmroute.gateway.answers import Answer
from warmroute.gateway.relay import Arrival

AnswerPage = Callable[[Arrival], Awaitable[Answer]]
Pages = Mapping[tuple[str, str], "OwnPage"]
"""Pages by method and path."""

_STRING: Mapping[str, Any] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A key of the query; `schema` is JSON Schema."""

    name: str
    text: str
    schema: Mapping[str, Any] = field(default_factory=lambda: _STRING)
    required: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """A body: `kind` is the type that msgspec makes its JSON Schema of; None for anything, as in bodies not JSON."""

    text: str
    kind: Any = None
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Description:
    """What a page takes and gives; `answers` by status. Errors that any page may give are not among them."""

    summary: str
    answers: Mapping[int, Content]
    parameters: tuple[Parameter, ...] = ()
    body: Content | None = None


@dataclass(frozen=True, slots=True)
class OwnPage:
    """One page at one method and path."""

    answer: AnswerPage
    description: Description

    async def __call__(self, arrival: Arrival) -> Answer:
        return await self.answer(arrival)
