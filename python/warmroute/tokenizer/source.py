"""Where the router gets the tokens of a prompt from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from warmroute.openai_api import Prompt
from warmroute.tokenizer.token_ids import NoTokens, TokenIds


@dataclass(frozen=True, slots=True)
class Original:
    """The client's own request, for an engine that is asked to read it itself."""

    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()


class TokenSource(Protocol):
    """Tells the tokens of a prompt."""

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        """The tokens of `prompt`, which has contents, or why they cannot be told. May be cancelled at any time."""
        ...
