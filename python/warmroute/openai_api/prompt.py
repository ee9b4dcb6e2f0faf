"""What a request asks, in the terms the router needs: the prompt, never the body.

The body itself is forwarded as the client wrote it. Everything here is read from it and is never written back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from warmroute.block import Namespace

JsonObject = dict[str, Any]

# A flat guess for an image, a sound or a file: 576 (LLaVA) to 1,300 (Qwen-VL, 1024 x 1024) tokens for one image.
MEDIA_TOKENS = 1_000


class Endpoint(StrEnum):
    """The kinds of body the router reads; `OTHER` is everything it only forwards."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    EMBEDDINGS = "embeddings"
    RESPONSES = "responses"
    MESSAGES = "messages"
    GENERATE = "generate"
    """SGLang's `/generate`."""
    TOKENS = "tokens"
    """vLLM's `/inference/v1/generate`: token ids in, token ids out."""
    OTHER = "other"


class Match(StrEnum):
    """How well a decision knows a prompt: all its tokens, a true prefix of them, or none."""

    EXACT = "exact"
    TEXT_PREFIX = "text-prefix"
    NONE = "none"


class Untold(StrEnum):
    """Why a body does not tell its whole prompt; the words are stable, others count and show them."""

    MULTIMODAL = "multimodal"
    """It holds an image, audio or a video, which becomes tokens that only the engine can tell."""
    EMBEDDINGS = "embeddings"
    """Embeddings stand in for tokens."""
    KEPT_STATE = "kept-state"
    """It goes on from something that the worker keeps: an earlier response, a conversation, a session."""
    TRUNCATED = "truncated"
    """It asks the engine to drop a part of the prompt, and its head may be dropped."""
    UNREADABLE = "unreadable"
    """It is not what its endpoint takes."""
    UNKNOWN_PART = "unknown-part"
    """It has a part, an item or a field of a kind that is not known here: a suffix to write up to, a file."""
    NO_PROMPT = "no-prompt"
    """It has no prompt, or its endpoint takes none."""


@dataclass(frozen=True, slots=True)
class TextContent:
    """A prompt given as text."""

    text: str
    add_special_tokens: bool = True


@dataclass(frozen=True, slots=True)
class TokenContent:
    """A prompt given as token ids, each in 0..2**32-1; nothing is added to them.

    From a body they come as an `array('I')`: 4 bytes an id, a buffer, and made and checked without a loop in Python.
    """

    token_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class ChatContent:
    """A conversation, still to be rendered by the model's chat template.

    `messages` and `tools` are in the shape of the chat endpoint, whatever dialect they came in; a message may hold
    images and the like. `template_options` are the extra variables that vLLM hands to the template: the client's
    `chat_template_kwargs` and what follows from the effort asked for. Where another engine makes something else of
    these: `client_options` are the client's own `chat_template_kwargs`, `effort` its own word for the effort,
    `tool_choice` which of the tools it allows, `endpoint` where the conversation came in.
    """

    messages: list[JsonObject]
    tools: list[JsonObject] | None = None
    documents: list[JsonObject] | None = None
    chat_template: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False
    template_options: Mapping[str, Any] = field(default_factory=dict)
    client_options: Mapping[str, Any] = field(default_factory=dict)
    effort: Any = None
    tool_choice: Any = None
    endpoint: Endpoint = Endpoint.CHAT


Content = TextContent | TokenContent | ChatContent


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as far as routing needs it.

    `contents` has one entry per prompt of a batch; it is empty where the prompt cannot be told (see `problem`, and
    `exact`). `max_tokens` is what the client allows to be generated, None where it did not say.
    `exact` is False where `contents` does not tell all that the engine will see: images in a conversation, a state kept
    on the worker, embeddings in place of tokens. `untold` then names the reason.
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
