"""Changes of the prefix cache in vLLM's wire format (`vllm/distributed/kv_events.py`).

A batch is the array `[timestamp, events, rank]`. An event is a map with its name under "type" since 0.24, in which
fields that have a default and equal it are left out; before, it was an array of its name and all fields in order.
Field order and defaults are those of vLLM 0.33 for maps, of 0.23 for arrays. Blocks in slower tiers are announced as
vLLM's offloading connector does by default: by their hashes, without tokens, parent and size.
"""

from collections.abc import Sequence

import msgspec

from warmroute.block import Tier
from warmroute.engine_model import KvChange, KvRemoved, KvStored

# As vLLM's worker and connectors, LMCache and SGLang call them.
_MEDIA = {Tier.DEVICE: "GPU", Tier.HOST: "CPU", Tier.DISK: "DISK"}
_GROUP = 0
_KIND = "full_attention"

ExtraKeys = list[tuple[str, ...] | None]


class _Stored(msgspec.Struct, gc=False):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: ExtraKeys | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class _Removed(msgspec.Struct, gc=False):
    block_hashes: list[int]
    medium: str | None
    group_idx: int | None = None


class _Cleared(msgspec.Struct, gc=False):
    pass


class _MapStored(_Stored, tag="BlockStored", omit_defaults=True, gc=False):
    pass


class _MapRemoved(_Removed, tag="BlockRemoved", omit_defaults=True, gc=False):
    pass


class _MapCleared(_Cleared, tag="AllBlocksCleared", gc=False):
    pass


class _ArrayStored(_Stored, tag="BlockStored", array_like=True, gc=False):
    pass


class _ArrayRemoved(_Removed, tag="BlockRemoved", array_like=True, gc=False):
    pass


class _ArrayCleared(_Cleared, tag="AllBlocksCleared", array_like=True, gc=False):
    pass


_STORED = {"map": _MapStored, "array": _ArrayStored}
_REMOVED = {"map": _MapRemoved, "array": _ArrayRemoved}
_CLEARED = {"map": _MapCleared, "array": _ArrayCleared}


class KvWire:
    """Encodes batches of one data-parallel rank in one form: "map" or "array"."""

    def __init__(self, form: str, rank: int = 0) -> None:
        self._rank = rank
        self._stored, self._removed, self._cleared = _STORED[form], _REMOVED[form], _CLEARED[form]
        self._encode = msgspec.msgpack.Encoder().encode

    def batch(self, timestamp: float, changes: Sequence[KvChange]) -> bytes:
        """One batch of events; `timestamp` in seconds since 1970."""
        return self._encode([timestamp, [self._event(change) for change in changes], self._rank])

    def _event(self, change: KvChange) -> msgspec.Struct:
        if isinstance(change, KvStored):
            return self._stored(
                block_hashes=list(change.block_hashes),
                parent_block_hash=change.parent,
                token_ids=list(change.token_ids),
                block_size=change.block_size,
                lora_id=None,
                medium=_MEDIA[change.tier],
                lora_name=change.namespace.adapter,
                extra_keys=_extra_keys(change) if change.token_ids else None,
                group_idx=_GROUP,
                kv_cache_spec_kind=_KIND,
            )
        if isinstance(change, KvRemoved):
            return self._removed(block_hashes=[change.block_hash], medium=_MEDIA[change.tier], group_idx=_GROUP)
        return self._cleared()


def _extra_keys(change: KvStored) -> ExtraKeys:
    """One entry per block: the adapter in each, the salt in the first block of a prompt; None where there are none."""
    adapter, salt = change.namespace.adapter, change.namespace.salt
    common = () if adapter is None else (adapter,)
    first = (*common, salt) if salt is not None and change.parent is None else common
    return [keys or None for keys in (first, *[common] * (len(change.block_hashes) - 1))]
