"""POST /v1/chat/completions: a conversation, its tools and what the client hands to the chat template.

Sources: vLLM 0.32, `entrypoints/openai/chat_completion/protocol.py`; SGLang 0.5.23, `entrypoints/openai/protocol.py`.
"""

from typing import Any

from warmroute.openai_api.body import UnreadableBody, flag, is_truncated, kind, objects, text, token_ids
from warmroute.openai_api.prompt import ChatContent, JsonObject, TokenContent, Untold
from warmroute.openai_api.reading import Reading

# The parts of a message that become text, and those that become tokens of their own making.
TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal", "thinking", "reasoning", "tool_reference"})
_MEDIA_PARTS = frozenset(
    {"image_url", "input_image", "image_embeds", "image_pil", "image", "audio_url", "input_audio", "audio_embeds"}
    | {"video_url", "video_embeds", "prompt_embeds"}
)


def read_chat(body: JsonObject) -> Reading:
    """The conversation of a chat body. Raises UnreadableBody."""
    messages = objects(body, "messages")
    if not messages:
        raise UnreadableBody("`messages` is missing or empty")
    if is_truncated(body):
        return Reading.nothing(Untold.TRUNCATED)
    untold = untold_in(messages)
    ids = _given_ids(body)
    if ids is not None and untold is None:
        return Reading((TokenContent(token_ids(ids, "the prompt's ids")),))
    effort = _effort(body)
    options = client_options(body)
    template = text(body, "chat_template")
    chat = ChatContent(
        messages=messages,
        tools=objects(body, "tools"),
        documents=objects(body, "documents"),
        chat_template=template,
        add_generation_prompt=flag(body, "add_generation_prompt", True),
        continue_final_message=flag(body, "continue_final_message", False),
        add_special_tokens=flag(body, "add_special_tokens", False),
        template_options=template_options(options, body.get("reasoning_effort")),
        client_options=options,
        effort=effort,
        tool_choice=body.get("tool_choice"),
    )
    return Reading((chat,), untold)


def _given_ids(body: JsonObject) -> list[Any] | None:
    """The ids that stand in for the messages: SGLang's `input_ids`, or what vLLM's prefill stage told for decode."""
    transfer = body.get("kv_transfer_params")
    ids = transfer.get("prompt_token_ids") if isinstance(transfer, dict) and not body.get("echo") else None
    if ids is None:
        ids = body.get("input_ids")
    return ids if isinstance(ids, list) else None


def _effort(body: JsonObject) -> Any:
    """SGLang also takes it from OpenRouter's `reasoning`, which wins; `enabled` alone is an effort without a name."""
    reasoning = body.get("reasoning")
    if not isinstance(reasoning, dict):
        return body.get("reasoning_effort")
    effort = reasoning.get("effort")
    effort = reasoning.get("reasoning_effort") if effort is None else effort
    if effort is None:
        effort = body.get("reasoning_effort")
    return True if effort is None and flag(reasoning, "enabled", flag(reasoning, "enable", False)) else effort


def client_options(body: JsonObject) -> JsonObject:
    """The variables that the client itself hands to the template."""
    options = body.get("chat_template_kwargs")
    return options if isinstance(options, dict) else {}


def template_options(options: JsonObject, effort: Any) -> JsonObject:
    """What vLLM makes of the client's options and the effort asked for: an effort sets thinking, too."""
    options = dict(options)
    if isinstance(effort, str):
        options.setdefault("enable_thinking", effort != "none")
        options["reasoning_effort"] = effort
    return options


def untold_in(messages: list[JsonObject]) -> Untold | None:
    """Why the messages are not all text; None where they are. Raises UnreadableBody."""
    found = None
    for message in messages:
        content = message.get("content")
        if content is None or isinstance(content, str):
            continue
        if not isinstance(content, list):
            raise UnreadableBody("the content of a message is neither text nor a list of parts")
        for part in content:
            found = found or _untold_part(part)
    return found


def _untold_part(part: Any) -> Untold | None:
    if isinstance(part, str):
        return None
    if not isinstance(part, dict):
        raise UnreadableBody("a part of a message is neither text nor an object")
    name = kind(part)
    if name in TEXT_PARTS:
        return None
    known = name in _MEDIA_PARTS or (not name and not _MEDIA_PARTS.isdisjoint(part))
    return Untold.MULTIMODAL if known else Untold.UNKNOWN_PART
