"""Bytes of one KV-event batch -> events. One unreadable event never costs the others of its batch."""

from typing import Any

import msgspec

from warmroute.errors import UndecodableFrame
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, Event, EventBatch
from warmroute.kv_event.sglang import plain_tokens, stated_salt
from warmroute.kv_event.tier import tier_of
from warmroute.kv_event.vllm import split_extra_keys
from warmroute.kv_event.wire import (
    ARRAY_EVENT,
    BATCH,
    MAP_EVENT,
    Removed,
    RemovedArray,
    Stored,
    StoredArray,
    is_map,
)

# What msgspec raises for bytes it cannot read: its own errors, and a RecursionError for arrays nested very deep.
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def decode_batch(payload: bytes) -> EventBatch:
    """Reads a payload of vLLM (0.9 on) or SGLang (0.4.9 on), both of which send `[timestamp, events, rank]`.

    An event that cannot be read is left out and its reason put into `rejected`.
    Raises UndecodableFrame only if the payload is not a batch at all.
    """
    try:
        frame = BATCH.decode(payload)
    except _UNREADABLE as error:
        raise UndecodableFrame(f"not a batch of KV events: {error}") from error
    events: list[Event] = []
    rejected: list[str] = []
    for raw in frame.events:
        try:
            events.append(_decode_event(raw))
        except _UNREADABLE as error:
            rejected.append(str(error))
    return EventBatch(timestamp=frame.timestamp, rank=_int_or_none(frame.rank), events=events, rejected=rejected)


def _decode_event(raw: msgspec.Raw) -> Event:
    event = (MAP_EVENT if is_map(raw) else ARRAY_EVENT).decode(raw)
    if isinstance(event, StoredArray):
        return _stored(event)
    if isinstance(event, RemovedArray):
        return _removed(event)
    return AllBlocksCleared()


def _stored(event: Stored) -> BlockStored:
    adapter = _adapter_of(event)
    salt, block_keys = split_extra_keys(
        event.extra_keys, len(event.block_hashes), adapter, at_prompt_start=event.parent_block_hash is None
    )
    return BlockStored(
        block_hashes=event.block_hashes,
        parent=event.parent_block_hash,
        token_ids=plain_tokens(event.token_ids),
        block_size=event.block_size or 0,
        tier=tier_of(event.medium, event.locality),
        adapter=adapter,
        salt=stated_salt(event) or salt,
        block_keys=block_keys,
        group=_int_or_none(event.group_idx),
        spec_kind=event.kv_cache_spec_kind if isinstance(event.kv_cache_spec_kind, str) else None,
    )


def _removed(event: Removed) -> BlockRemoved:
    return BlockRemoved(
        block_hashes=event.block_hashes,
        tier=tier_of(event.medium, event.locality),
        group=_int_or_none(event.group_idx),
    )


def _adapter_of(event: Stored) -> str | None:
    """The adapter's name. Releases that send only its number get a name that no request carries: the blocks must not be
    credited to the base model, and the number (an order of registration) cannot be credited to anybody."""
    if isinstance(event.lora_name, str) and event.lora_name:
        return event.lora_name
    return f"lora-id:{event.lora_id}" if event.lora_id else None


def _int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
