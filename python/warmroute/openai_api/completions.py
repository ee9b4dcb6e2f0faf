"""POST /v1/completions: text, token ids, or a list of either."""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, flag
from warmroute.openai_api.prompt import Content, JsonObject, TextContent, TokenContent
from warmroute.openai_api.reading import UNTOLD, Reading

_LARGEST_ID = 2**32 - 1


def read_completions(body: JsonObject) -> Reading:
    """The prompts of a completions body. Raises UnreadableBody."""
    # Embeddings stand in for tokens, and truncation drops the head of the prompt: neither shares a prefix that is told.
    if body.get("prompt_embeds") is not None or body.get("truncate_prompt_tokens") is not None:
        return UNTOLD
    return Reading(read_prompts(body.get("prompt"), "prompt", flag(body, "add_special_tokens", True)))


def read_prompts(value: Any, name: str, add_special_tokens: bool) -> tuple[Content, ...]:
    """The contents of a text, a list of token ids, or a list of these. Raises UnreadableBody."""
    if isinstance(value, str):
        return (TextContent(value, add_special_tokens),)
    if not isinstance(value, list):
        raise UnreadableBody(f"`{name}` is neither a string nor a list")
    if value and type(value[0]) is int:
        return (_tokens(value, name),)
    return tuple(_one_prompt(item, name, add_special_tokens) for item in value)


def _one_prompt(item: Any, name: str, add_special_tokens: bool) -> Content:
    if isinstance(item, str):
        return TextContent(item, add_special_tokens)
    if isinstance(item, list):
        return _tokens(item, name)
    raise UnreadableBody(f"`{name}` holds something that is neither text nor a list of token ids")


def _tokens(ids: list[Any], name: str) -> TokenContent:
    if not all(type(token) is int and 0 <= token <= _LARGEST_ID for token in ids):
        raise UnreadableBody(f"`{name}` holds something that is not a token id")
    return TokenContent(tuple(ids))
