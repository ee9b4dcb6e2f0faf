"""Bytes of one KV-event batch -> events: what the crate `kv-event` reads, in terms of Python values.

This is for reading and for comparing; the router itself applies bytes with `warmroute.kv_event.apply.EventApplier`.
"""

from typing import Any

from kv_event.twin import msgpack
from kv_event.twin.extra_keys import is_array, split_extra_keys
from kv_event.twin.msgpack import BadText, Map
from kv_event.twin.tier import tier_of
from warmroute.block import EngineHash
from warmroute.errors import UndecodableFrame
from warmroute.kv_event.messages import AllBlocksCleared, BlockRemoved, BlockStored, Event, EventBatch

# What follows the tag of an event that is an array, by position.
_STORED = [
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
_PLACES: dict[Any, list[str]] = {
    "BlockStored": _STORED,
    "BlockRemoved": ["block_hashes", "medium", "group_idx", "locality"],
    "AllBlocksCleared": [],
}
_KNOWN = {*_STORED, "type", "event_type", "seq_hashes", "cache_salt", "mm_keys"} - {"kv_cache_spec_sliding_window"}

Fields = dict[str, Any]


def decode_batch(payload: bytes) -> EventBatch:
    """Reads `[timestamp, events, ...]`. What cannot be read of the events is left out, its reasons are in `rejected`.

    Raises UndecodableFrame if the payload is not a batch at all.
    """
    try:
        frame = msgpack.decode(payload)
    except ValueError as error:
        raise UndecodableFrame(f"not a batch of KV events: {error}") from error
    if not is_array(frame) or len(frame) < 2 or not _is_number(frame[0]) or not is_array(frame[1]):
        raise UndecodableFrame("not a batch of KV events: it is not an array of a timestamp and events")
    events: list[Event] = []
    rejected: list[str] = []
    for raw in frame[1]:
        try:
            events.append(_event(_fields(raw)))
        except ValueError as error:
            rejected.append(str(error))
    rank = _int_or_none(frame[2]) if len(frame) > 2 else None
    return EventBatch(timestamp=float(frame[0]), rank=rank, events=events, rejected=rejected)


def _fields(raw: Any) -> Fields:
    """The fields of an event by name, whichever form it has."""
    if isinstance(raw, Map):
        known = [(key, value) for key, value in raw.items() if isinstance(key, str) and key in _KNOWN]
        if len(dict(known)) < len(known):
            raise ValueError("a field occurs twice")
        return dict(known)
    if not isinstance(raw, list):
        raise ValueError("an event is neither an array nor a map")
    tag = raw[0] if raw and isinstance(raw[0], str) else None
    if tag not in _PLACES:
        raise ValueError("there is no such type of event")
    fields = {"type": tag, **dict(zip(_PLACES[tag], raw[1:], strict=False))}
    metadata = fields.get("lora_name")
    if isinstance(metadata, Map):
        # SGLang 0.5.18 and 0.5.19; of a salt that occurs twice the last counts.
        salts = [value for key, value in metadata.items() if key == "cache_salt"]
        for salt in salts:
            _name(salt)
        fields |= {"lora_name": None, "cache_salt": salts[-1] if salts else None}
    return fields


def _event(fields: Fields) -> Event:
    if isinstance(fields.get("event_type"), str | BadText):
        return _presence(fields)
    match fields.get("type"):
        case "BlockStored":
            return _stored(fields)
        case "BlockRemoved":
            return BlockRemoved(
                block_hashes=_hashes(fields.get("block_hashes")),
                tier=tier_of(fields.get("medium"), fields.get("locality")),
                group=_int_or_none(fields.get("group_idx")),
            )
        case "AllBlocksCleared":
            return AllBlocksCleared()
    raise ValueError("there is no such type of event")


def _presence(fields: Fields) -> Event:
    """An event of Mooncake's master: hashes without tokens."""
    kind = fields["event_type"]
    if kind == "cleared":
        return AllBlocksCleared()
    try:
        block_hashes = _hashes(fields.get("block_hashes"))
    except ValueError:
        block_hashes = _hashes(fields.get("seq_hashes"))
    tier = tier_of(fields.get("medium"), fields.get("locality"))
    if kind == "stored":
        return BlockStored(block_hashes=block_hashes, tier=tier)
    if kind == "removed":
        return BlockRemoved(block_hashes=block_hashes, tier=tier)
    raise ValueError("there is no such type of event")


def _stored(fields: Fields) -> BlockStored:
    block_hashes = _hashes(fields.get("block_hashes"))
    parent = fields.get("parent_block_hash")
    parent = None if parent is None else _hash(parent)
    name = _name(fields.get("lora_name"))
    lora_id = fields.get("lora_id")
    adapter = name or _unnamed_adapter(lora_id)
    salt, block_keys = split_extra_keys(
        fields.get("extra_keys"), fields.get("mm_keys"), len(block_hashes), adapter, at_prompt_start=parent is None
    )
    kind = fields.get("kv_cache_spec_kind")
    stated_salt = _name(fields.get("cache_salt"))
    return BlockStored(
        block_hashes=block_hashes,
        parent=parent,
        token_ids=_tokens(fields.get("token_ids")),
        block_size=_block_size(fields.get("block_size")),
        tier=tier_of(fields.get("medium"), fields.get("locality")),
        adapter=adapter,
        adapter_load=_int_or_none(lora_id) if name else None,
        salt=stated_salt or salt,
        block_keys=block_keys,
        group=_int_or_none(fields.get("group_idx")),
        spec_kind=kind.data.hex() if isinstance(kind, BadText) else kind if isinstance(kind, str) else None,
    )


def _hashes(value: Any) -> list[EngineHash]:
    if not is_array(value):
        raise ValueError("block_hashes is not an array")
    return [_hash(item) for item in value]


def _hash(value: Any) -> EngineHash:
    if not _is_int(value) and not isinstance(value, bytes):
        raise ValueError("a block hash is neither an integer nor bytes")
    return value  # type: ignore[no-any-return]


def _tokens(value: Any) -> list[int]:
    """Token ids; of EAGLE's bigrams `[[t0, t1], [t1, t2], ...]` the first of each, which is the token at that place."""
    if value is None:
        return []
    if not is_array(value):
        raise ValueError("token_ids is not an array")
    if value and isinstance(value[0], list):
        if not all(is_array(pair) and len(pair) == 2 for pair in value):
            raise ValueError("token_ids are not all pairs")
        return [_token(first) for first, second in value if _token(second) >= 0]
    return [_token(item) for item in value]


def _token(value: Any) -> int:
    if not _is_int(value) or not 0 <= value < 2**32:
        raise ValueError("a token id is not an integer below 2**32")
    return int(value)


def _block_size(value: Any) -> int:
    if value is None:
        return 0
    if not _is_int(value):
        raise ValueError("block_size is not an integer")
    return max(int(value), 0)


def _unnamed_adapter(lora_id: Any) -> str | None:
    if lora_id is None or lora_id is False or lora_id == "" or (_is_int(lora_id) and lora_id == 0):
        return None
    return f"lora-id:{lora_id if _is_int(lora_id) or isinstance(lora_id, str) else '?'}"


def _name(value: Any) -> str | None:
    """A name, where the value is one: text that is not empty."""
    if isinstance(value, BadText):
        raise ValueError("a name is not UTF-8")
    return value if isinstance(value, str) and value else None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or isinstance(value, float)


def _int_or_none(value: Any) -> int | None:
    return value if _is_int(value) else None
