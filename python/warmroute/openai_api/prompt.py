"""What a request asks, in the terms the router needs: the prompt, never the body.

The body itself is forwarded as the client wrote it. Everything here is read from it and is never written back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from warmroute.block import Namespace

JsonObject = dict[str, Any]


class Endpoint(StrEnum):
    """The kinds of body the router reads; `OTHER` is everything it only forwards."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    MESSAGES = "messages"
    OTHER = "other"


class Match(StrEnum):
    """How well a decision knows a prompt: all its tokens, a true prefix of them, or none."""

    EXACT = "exact"
    TEXT_PREFIX = "text-prefix"
    NONE = "none"


class Untold(StrEnum):
    """Why a body does not tell its whole prompt; the words are stable, others count and show them."""

    MULTIMODAL = "multimodal"
    EMBEDDINGS = "embeddings"
    KEPT_STATE = "kept-state"
    TRUNCATED = "truncated"
    UNREADABLE = "unreadable"
    CLIENT_TEMPLATE = "client-template"
    UNKNOWN_PART = "unknown-part"
    NO_PROMPT = "no-prompt"


@dataclass(frozen=True, slots=True)
class TextContent:
    """A prompt given as text."""

    text: str
    add_special_tokens: bool = True


@dataclass(frozen=True, slots=True)
class TokenContent:
    """A prompt given as token ids, each in 0..2**32-1; nothing is added to them."""

    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChatContent:
    """A conversation, still to be rendered by the model's chat template.

    `messages` and `tools` are in the shape of the chat endpoint, whatever dialect they came in. `template_options` are
    the extra variables the client hands to the template (`chat_template_kwargs`, `reasoning_effort`).
    """

    messages: list[JsonObject]
    tools: list[JsonObject] | None = None
    documents: list[JsonObject] | None = None
    chat_template: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    template_options: Mapping[str, Any] = field(default_factory=dict)


Content = TextContent | TokenContent | ChatContent


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as far as routing needs it.

    `contents` has one entry per prompt of a batch; it is empty where the prompt cannot be told (see `problem`, and
    `exact`). `max_tokens` is what the client allows to be generated, None where it did not say.
    `exact` is False where `contents` leaves something out that the engine will see: the parts of a conversation from
    its first image, audio or video on, a state kept on the worker, embeddings in place of tokens.
    `untold` names the reason wherever `exact` is False.
    `session` is what the body itself names as its conversation; it says nothing of tokens.
    `problem` says in one line what is wrong with the body; the worker is the one to refuse it.
    """

    endpoint: Endpoint
    model: str | None = None
    stream: bool = False
    contents: tuple[Content, ...] = ()
    max_tokens: int | None = None
    namespace: Namespace = field(default_factory=Namespace)
    exact: bool = True
    problem: str | None = None
    untold: Untold | None = None
    session: str | None = None
