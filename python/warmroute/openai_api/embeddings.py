"""POST /v1/embeddings: `input` as in completions, or conversations in `messages` or in `input`.

Sources: vLLM 0.32, `entrypoints/pooling/embed/protocol.py`; SGLang 0.5.23, `entrypoints/openai/serving_embedding.py`.
"""

from dataclasses import replace
from typing import Any

from warmroute.openai_api.body import flag, is_truncated
from warmroute.openai_api.chat import read_chat
from warmroute.openai_api.completions import read_prompts, told
from warmroute.openai_api.prompt import ChatContent, JsonObject, Untold
from warmroute.openai_api.reading import Reading

# What a conversation has for chat and not here; vLLM ignores these.
_CHAT_ONLY = ("tools", "documents", "tool_choice", "reasoning_effort", "input_ids", "kv_transfer_params")


def read_embeddings(body: JsonObject) -> Reading:
    """The inputs of an embeddings body. Raises UnreadableBody."""
    if is_truncated(body):
        return Reading.nothing(Untold.TRUNCATED)
    value = body.get("input")
    messages = body["messages"] if body.get("messages") is not None else _conversations(value)
    if messages is not None:
        return _read_conversations(body, messages)
    # SGLang's inputs of several media, each an object with a text, an image or a video.
    if _first_of(value, dict):
        return Reading.nothing(Untold.MULTIMODAL)
    return told(read_prompts(value, "input", flag(body, "add_special_tokens", True)))


def _conversations(value: Any) -> Any:
    """`value` if it is one conversation or a list of them."""
    first = value[0] if _first_of(value, list) else value
    return value if _first_of(first, dict) and isinstance(first[0].get("role"), str) else None


def _first_of(value: Any, kind: type) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], kind)


def _read_conversations(body: JsonObject, messages: Any) -> Reading:
    body = {name: value for name, value in body.items() if name not in _CHAT_ONLY}
    several = messages if _first_of(messages, list) else [messages]
    readings = [read_chat({**body, "messages": each}) for each in several]
    # Nothing is generated here, so the cue to answer is there on request only.
    cue = flag(body, "add_generation_prompt", False)
    chats = [content for reading in readings for content in reading.contents if isinstance(content, ChatContent)]
    untold = next((reading.untold for reading in readings if reading.untold is not None), None)
    return Reading(tuple(replace(chat, add_generation_prompt=cue) for chat in chats), untold)
