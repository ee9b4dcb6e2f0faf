"""What a prompt becomes."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.openai_api import Content, TokenContent


@dataclass(frozen=True, slots=True)
class TokenIds:
    """`ids` of the first content of a prompt; `total` is the number of tokens over all its contents."""

    ids: list[int]
    total: int


def given_ids(contents: Sequence[Content]) -> TokenIds | None:
    """The ids of a prompt whose contents all came as ids; None for any other, which needs a tokenizer."""
    given = [content for content in contents if isinstance(content, TokenContent)]
    if not given or len(given) < len(contents):
        return None
    return TokenIds(list(given[0].token_ids), sum(len(content.token_ids) for content in given))
