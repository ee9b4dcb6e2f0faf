"""What a body names as its conversation, for clients that do: no tokens, but a hint where they went before.

Sources: OpenAI's `prompt_cache_key` and `conversation`; `session_id` of vLLM 0.32 and SGLang 0.5.23, SGLang's
`session_params`; Claude Code's `metadata.user_id`, which ends in `_session_UUID` and is since its release 2.1.78 a JSON
object in a string (coder/aibridge#241).
"""

import re
from typing import Any

import msgspec

from warmroute.openai_api.prompt import JsonObject

_FIELDS = ("session_id", "conversation_id", "prompt_cache_key")
_METADATA_FIELDS = ("session_id", "sessionId", "conversation_id", "thread_id")
_IN_USER_ID = re.compile(r"_session_([0-9A-Za-z-]+)$")
# Longer is no name. It is kept for each conversation.
_LONGEST = 256


def session_of(body: JsonObject) -> str | None:
    """The name of the conversation, up to 256 characters; None where the body names none."""
    return _first(body, _FIELDS) or _conversation(body) or _from_metadata(body.get("metadata"))


def _first(fields: JsonObject, names: tuple[str, ...]) -> str | None:
    return next((name for field in names if (name := _name(fields.get(field))) is not None), None)


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST else None


def _conversation(body: JsonObject) -> str | None:
    """By its id, or as an object that holds it."""
    for field in ("conversation", "session_params"):
        value = body.get(field)
        name = _name(value.get("id") if isinstance(value, dict) else value)
        if name is not None:
            return name
    return None


def _from_metadata(metadata: Any) -> str | None:
    if not isinstance(metadata, dict):
        return None
    return _first(metadata, _METADATA_FIELDS) or _from_user_id(metadata.get("user_id"))


def _from_user_id(user_id: Any) -> str | None:
    if not isinstance(user_id, str) or len(user_id) > 4 * _LONGEST:
        return None
    if not user_id.startswith("{"):
        found = _IN_USER_ID.search(user_id)
        return None if found is None else _name(found[1])
    try:
        fields = msgspec.json.decode(user_id)
    except (msgspec.DecodeError, RecursionError):
        return None
    return _first(fields, _METADATA_FIELDS) if isinstance(fields, dict) else None
