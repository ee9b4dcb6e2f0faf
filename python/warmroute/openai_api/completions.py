"""POST /v1/completions: text, token ids, or a list of either.

Sources: vLLM 0.32, `entrypoints/openai/completion/protocol.py`; SGLang 0.5.23, `serving_completions.py`.
"""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, flag, is_truncated, token_ids
from warmroute.openai_api.prompt import Content, JsonObject, TextContent, TokenContent, Untold
from warmroute.openai_api.reading import Reading


def read_completions(body: JsonObject) -> Reading:
    """The prompts of a completions body. Raises UnreadableBody."""
    untold = _untold(body)
    if untold is not None:
        return Reading.nothing(untold)
    return told(read_prompts(body.get("prompt"), "prompt", flag(body, "add_special_tokens", True)))


def _untold(body: JsonObject) -> Untold | None:
    if body.get("prompt_embeds") is not None:
        return Untold.EMBEDDINGS
    if is_truncated(body):
        return Untold.TRUNCATED
    # Only some models take a suffix, each with a text of its own around both.
    return None if body.get("suffix") is None else Untold.UNKNOWN_PART


def told(contents: tuple[Content, ...]) -> Reading:
    """All of a prompt; of an empty list of prompts there is nothing to tell."""
    return Reading(contents) if contents else Reading.nothing(Untold.NO_PROMPT)


def read_prompts(value: Any, name: str, add_special_tokens: bool) -> tuple[Content, ...]:
    """The contents of a text, a list of token ids, or a list of these. Raises UnreadableBody."""
    if isinstance(value, str):
        return (TextContent(value, add_special_tokens),)
    if not isinstance(value, list):
        raise UnreadableBody(f"`{name}` is neither a string nor a list")
    if value and not isinstance(value[0], str | list):
        return (TokenContent(token_ids(value, name)),)
    return tuple(_one_prompt(item, name, add_special_tokens) for item in value)


def _one_prompt(item: Any, name: str, add_special_tokens: bool) -> Content:
    if isinstance(item, str):
        return TextContent(item, add_special_tokens)
    if isinstance(item, list):
        return TokenContent(token_ids(item, name))
    raise UnreadableBody(f"`{name}` holds something that is neither text nor a list of token ids")
