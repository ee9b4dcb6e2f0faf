"""The events as they lie on the wire, before any engine's habits are interpreted.

vLLM and SGLang share one layout: the first six fields of a store agree in name, type and position in every release,
and what one adds the other leaves out. So one set of shapes reads both, and no family has to be configured or guessed.
An event is an array in older releases (vLLM up to 0.23, SGLang up to 0.5.19) and a map in newer ones. Short arrays and
absent keys take the defaults below, further array elements and unknown keys are skipped: engines append fields.

A field is typed as strictly as it is needed: a wrong block hash spoils the event, an odd `lora_id` must not.
"""

from typing import Any

import msgspec

# Ranges are not declared here: msgspec 0.23 crashes in the garbage collector where types carry `Meta` limits (its issue
# 717), and the index checks token ids anyway.
# SGLang with EAGLE keys its cache by bigrams and sends each token with its successor.
TokenOrBigram = int | tuple[int, int]
WireHash = int | bytes


class BatchFrame(msgspec.Struct, array_like=True):
    """`[timestamp, events, rank]`; vLLM 0.9.0 had no rank."""

    timestamp: float
    events: list[msgspec.Raw]
    rank: Any = None


class StoredArray(msgspec.Struct, array_like=True, tag="BlockStored"):
    """Position by position as declared by vLLM (0.33); SGLang ends after `medium`.

    SGLang 0.5.18 and 0.5.19 put a map (`{"cache_salt": ...}`) where vLLM has `lora_name`.
    """

    block_hashes: list[WireHash]
    parent_block_hash: WireHash | None = None
    token_ids: list[TokenOrBigram] | None = None
    block_size: int | None = None
    lora_id: Any = None
    medium: Any = None
    lora_name: Any = None
    extra_keys: Any = None
    group_idx: Any = None
    kv_cache_spec_kind: Any = None
    kv_cache_spec_sliding_window: Any = None
    locality: Any = None


class StoredMap(StoredArray, array_like=False, tag="BlockStored"):
    """The same by name; `cache_salt` is SGLang's (0.5.20 on)."""

    cache_salt: Any = None


class RemovedArray(msgspec.Struct, array_like=True, tag="BlockRemoved"):
    block_hashes: list[WireHash]
    medium: Any = None
    group_idx: Any = None
    locality: Any = None


class RemovedMap(RemovedArray, array_like=False, tag="BlockRemoved"):
    pass


class ClearedArray(msgspec.Struct, array_like=True, tag="AllBlocksCleared"):
    pass


class ClearedMap(msgspec.Struct, tag="AllBlocksCleared"):
    pass


Stored = StoredArray | StoredMap
Removed = RemovedArray | RemovedMap

BATCH = msgspec.msgpack.Decoder(BatchFrame)
ARRAY_EVENT = msgspec.msgpack.Decoder(StoredArray | RemovedArray | ClearedArray)
MAP_EVENT = msgspec.msgpack.Decoder(StoredMap | RemovedMap | ClearedMap)


def is_map(event: msgspec.Raw) -> bool:
    """Whether a msgpack value is a map, from its first byte (fixmap, map 16, map 32)."""
    head = memoryview(event)[0]
    return head & 0xF0 == 0x80 or head in (0xDE, 0xDF)
