"""A request as a log tells it, whatever the log's format."""

from dataclasses import dataclass

from warmroute.errors import WarmrouteError
from warmroute.openai_api import Content


class BrokenLine(WarmrouteError):
    """A line cannot be read as its log's format says; the text tells why, without a word of the prompt."""


class LeftOut(WarmrouteError):
    """A line tells of a request that no engine has computed, such as one that was refused; the text tells which."""


@dataclass(frozen=True, slots=True)
class ToldPrompt:
    """A prompt that the log holds. `model` and `salt` keep equal tokens apart; `whole` is False where images and the
    like are left out of `content`."""

    content: Content
    model: str | None = None
    salt: str | None = None
    whole: bool = True


@dataclass(frozen=True, slots=True)
class BlockIds:
    """A prompt of which the log holds names of its blocks only: equal names, equal blocks behind equal prefixes.

    ids: of the first blocks, of `block_tokens` tokens each; the last one may be shorter. tokens: of the whole prompt.
    """

    ids: list[int | str]
    block_tokens: int
    tokens: int
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One prompt that an engine has got.

    at_s: in seconds, on a clock of the log's own. ended_at_s: when the answer was complete, where that is told.
    prompt_tokens, answer_tokens: as the log counts them. max_tokens: the client's limit. answer_guessed: the log says
    that its `answer_tokens` are a guess. session: the log's name for the conversation.
    """

    at_s: float
    prompt: ToldPrompt | BlockIds
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    max_tokens: int | None = None
    session: str | None = None
    ended_at_s: float | None = None
    answer_guessed: bool = False
