"""Writes events as the engines do: arrays in older releases, maps with defaults left out in newer ones."""

from typing import Any

import msgspec

STORED = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
    "locality",
]
REMOVED = ["block_hashes", "medium", "group_idx", "locality"]
FIELDS = {"BlockStored": STORED, "BlockRemoved": REMOVED, "AllBlocksCleared": list[str]()}
# Declared without a default, so sent even where they are null.
ALWAYS = {"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"}


def as_array(kind: str, fields: dict[str, Any], length: int | None = None) -> list[Any]:
    """The event as an array of `length` elements with its tag (None: all that are known)."""
    array = [kind, *(fields.get(name) for name in FIELDS[kind])]
    return array[:length]


def as_map(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in fields.items() if value is not None or name in ALWAYS}
    return {"type": kind, **kept}


def stored(hashes: list[int], tokens: list[int], parent: int | None = None, **fields: Any) -> dict[str, Any]:
    """A store as vLLM 0.33 writes it; the block size follows from the counts."""
    return as_map(
        "BlockStored",
        {
            "block_hashes": hashes,
            "parent_block_hash": parent,
            "token_ids": tokens,
            "block_size": len(tokens) // len(hashes),
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            **fields,
        },
    )


def removed(hashes: list[int], **fields: Any) -> dict[str, Any]:
    return as_map("BlockRemoved", {"block_hashes": hashes, "medium": "GPU", **fields})


def cleared() -> dict[str, Any]:
    return as_map("AllBlocksCleared", {})


def encode(events: list[Any], timestamp: float = 1700000000.5, *rest: Any) -> bytes:
    """A batch; `rest` is what follows the events (nothing, a rank, or more)."""
    return msgspec.msgpack.encode([timestamp, events, *rest])
