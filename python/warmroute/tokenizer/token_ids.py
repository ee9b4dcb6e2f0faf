"""What a prompt becomes, or why it does not."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from warmroute.openai_api import Content, TokenContent


@dataclass(frozen=True, slots=True)
class TokenIds:
    """`ids` of the first content of a prompt; `total` is the number of tokens over all its contents.

    complete: False where `ids` are only a true prefix of what the engine will see; `total` counts what is told then,
    unless an engine has counted all of it.
    why: why they are not complete, where that is no matter of the body.
    """

    ids: Sequence[int]
    total: int
    complete: bool = True
    why: "NoTokens | None" = None


class NoTokens(StrEnum):
    """Why a source could not tell the tokens of a prompt that can be read, or not all of them.

    The words are stable: they are counted and shown.
    """

    DEADLINE = "deadline"
    """Not in time: the tokenizer's threads, or the engine, took too long."""
    BACKLOG = "backlog"
    """So many prompts were waiting for a thread already that this one was not tried."""
    TOO_LONG = "too-long"
    """Longer than any engine's context."""
    TEMPLATE = "template"
    """The chat template failed on the conversation, so the engine's will, too."""
    CLIENT_TEMPLATE = "client-template"
    """The request brings a chat template of its own, and such are not rendered here."""
    RENDERING = "rendering"
    """What the engine makes of the conversation is known for its beginning only."""
    MIXED_ENGINES = "mixed-engines"
    """Engines that render conversations differently serve the model; told is what most of them see."""
    NO_TOKENIZER = "no-tokenizer"
    """No tokenizer is at hand for the model, and no engine has a page that would tell."""
    NO_WORKER = "no-worker"
    """No worker serves the model now, so there is nobody to ask and nothing to match."""
    ENGINE_FAILED = "engine-failed"
    """The engine was asked and did not answer, or not what it should."""
    ENGINE_REFUSED = "engine-refused"
    """The engine was asked and refused the body; it will refuse the request as well."""
    ENGINE_AVOIDED = "engine-avoided"
    """The engines that could be asked have failed lately, and are left alone for a while."""


def given_ids(contents: Sequence[Content]) -> TokenIds | None:
    """The ids of a prompt whose contents all came as ids; None for any other, which needs a tokenizer."""
    given = [content for content in contents if isinstance(content, TokenContent)]
    if not given or len(given) < len(contents):
        return None
    return TokenIds(given[0].token_ids, sum(len(content.token_ids) for content in given))
