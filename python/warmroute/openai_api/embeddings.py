"""POST /v1/embeddings: `input` as in completions, or `messages` as in chat."""

from dataclasses import replace

from warmroute.openai_api.body import flag
from warmroute.openai_api.chat import read_chat
from warmroute.openai_api.completions import read_prompts
from warmroute.openai_api.prompt import ChatContent, JsonObject
from warmroute.openai_api.reading import UNTOLD, Reading


def read_embeddings(body: JsonObject) -> Reading:
    """The inputs of an embeddings body. Raises UnreadableBody."""
    if body.get("truncate_prompt_tokens") is not None:
        return UNTOLD
    if body.get("messages") is not None:
        return _without_generation_prompt(read_chat(body), flag(body, "add_generation_prompt", False))
    return Reading(read_prompts(body.get("input"), "input", flag(body, "add_special_tokens", True)))


def _without_generation_prompt(reading: Reading, wanted: bool) -> Reading:
    """Nothing is generated here, so the cue to answer is there on request only."""
    cue = wanted and reading.exact
    chats = [content for content in reading.contents if isinstance(content, ChatContent)]
    return replace(reading, contents=tuple(replace(chat, add_generation_prompt=cue) for chat in chats))
