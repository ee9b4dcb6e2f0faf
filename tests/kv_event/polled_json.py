"""TensorRT-LLM's events as its serializer writes them."""

import json
from collections.abc import Sequence
from typing import Any

WINDOW = 32768


def answer(*events: dict[str, Any]) -> bytes:
    return json.dumps(list(events)).encode()


def event(event_id: int, data: dict[str, Any], window: int | None = WINDOW, rank: int | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"event_id": event_id, "data": data}
    told |= {} if window is None else {"window_size": window}
    return told | ({} if rank is None else {"attention_dp_rank": rank})


def created() -> dict[str, Any]:
    return {"type": "created", "num_blocks_per_cache_level": [100, 50]}


def stored_block(block_hash: Any, tokens: Sequence[int], level: int = 0, **extra: Any) -> dict[str, Any]:
    return {
        "type": "stored_block",
        "block_hash": block_hash,
        "tokens": [{"type": "unique_token", "token_id": token, "token_extra_id": 0} for token in tokens],
        "cache_level": level,
        "priority": 35,
        **extra,
    }


def stored(parent: Any, *blocks: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"type": "stored", "parent_hash": parent, "blocks": list(blocks), **extra}


def removed(*block_hashes: Any) -> dict[str, Any]:
    return {"type": "removed", "block_hashes": list(block_hashes)}


def diff(old: int, new: int) -> dict[str, Any]:
    return {"type": "event_diff", "new_value": new, "old_value": old}


def updated(block_hash: Any, level: dict[str, Any] | None, priority: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "updated", "block_hash": block_hash, "cache_level": level, "priority": priority}
