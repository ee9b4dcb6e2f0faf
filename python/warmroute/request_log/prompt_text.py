"""A prompt's text as bytes, for logs that are read without the model's tokenizer.

Not what the engine sees, but as long, nearly, and with the property that counts: of two conversations whose first
messages are equal the texts begin alike, and one that goes on from another begins with all of it.
"""

import json
from array import array
from hashlib import blake2b
from typing import Any

from warmroute.openai_api import ChatContent, Content, JsonObject, TokenContent
from warmroute.openai_api.prompt import MEDIA_TOKENS

_TEXT_FIELDS = ("text", "content", "thinking", "reasoning", "refusal")
_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "tool_call_id", "name")
_DIGEST_BYTES = 64


def prompt_bytes(content: Content) -> bytes:
    """The text. An image and the like are a thousand tokens of bytes of their own, equal for equal ones."""
    if isinstance(content, TokenContent):
        return array("I", content.token_ids).tobytes()
    if isinstance(content, ChatContent):
        return b"".join(_chat(content))
    return content.text.encode("utf-8", "replace")


def _chat(chat: ChatContent) -> list[bytes]:
    """Tools and documents come first, as most templates put them before what changes from turn to turn."""
    parts = [_value(each) + b"\n" for each in (chat.tools, chat.documents) if each]
    for message in chat.messages:
        parts.append(f"<{message.get('role')}>".encode("utf-8", "replace"))
        parts.extend(_value(message[name]) for name in _FIELDS if message.get(name))
        parts.append(b"\n")
    return parts


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, list):
        return b"".join(map(_part, value))
    return _json(value)


def _part(part: Any) -> bytes:
    if isinstance(part, str):
        return part.encode("utf-8", "replace")
    text = _text(part) if isinstance(part, dict) else None
    if text is not None:
        return text.encode("utf-8", "replace")
    return _media(part) if _is_media(part) else _json(part)


def _text(part: JsonObject) -> str | None:
    """The text of a part that is nothing but text."""
    names = [name for name in part if name != "type"]
    value = part.get(names[0]) if len(names) == 1 and names[0] in _TEXT_FIELDS else None
    return value if isinstance(value, str) else None


def _is_media(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and any(word in kind for word in ("image", "audio", "video", "file"))


def _media(part: Any) -> bytes:
    digest = blake2b(_json(part), digest_size=_DIGEST_BYTES).digest()
    return digest * (4 * MEDIA_TOKENS // _DIGEST_BYTES)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace")
