"""KV events as TensorRT-LLM keeps them until somebody asks (`KVCacheEventSerializer` in `tensorrt_llm/_utils.py`).

Its radix tree has one block for each hash, where the modelled cache may have several copies: `stored` tells of the
first and `removed` of the last one. A block has one level there: here it is the fastest tier that holds it. Nothing is
said of a cleared cache but that its blocks are removed.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

from warmroute.block import Tier
from warmroute.engine_model import EngineOptions, KvChange, KvCleared, KvRemoved, KvStored

_PRIORITY = 35


class KvBuffer:
    """The events of one rank, at most `limit`: the oldest are lost, which their ids tell."""

    def __init__(self, options: EngineOptions, *, rank: int | None, limit: int) -> None:
        self._options = options
        self._rank = rank
        self._events: deque[dict[str, Any]] = deque(maxlen=limit)
        self._copies: dict[int, list[int]] = {}
        self._next = 0
        self._begin()

    def publish(self, changes: Sequence[KvChange]) -> None:
        """Keep what `changes` mean for the tree."""
        for change in changes:
            match change:
                case KvStored():
                    self._store(change)
                case KvRemoved():
                    self._remove(change.block_hash, change.tier)
                case KvCleared():
                    self._add({"type": "removed", "block_hashes": list(self._copies)})
                    self._copies.clear()

    def restart(self) -> None:
        """Go on as the buffer of a new process, which counts its events from 0."""
        self._events.clear()
        self._copies.clear()
        self._next = 0
        self._begin()

    def drain(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        events = list(self._events)
        self._events.clear()
        return events

    def _begin(self) -> None:
        levels = [self._options.num_blocks, self._options.host_blocks]
        self._add({"type": "created", "num_blocks_per_cache_level": levels})

    def _store(self, change: KvStored) -> None:
        """Tell of the blocks that are new, one chain for each run of them, and of those that came to a faster tier."""
        size, parent = change.block_size, change.parent
        chain: list[dict[str, Any]] = []
        for at, block_hash in enumerate(change.block_hashes):
            copies = self._copies.setdefault(block_hash, [0] * len(Tier))
            before = _level(copies)
            copies[change.tier] += 1
            if before is None:
                tokens = change.token_ids[at * size : (at + 1) * size]
                chain.append(_block(block_hash, tokens, change.namespace.salt))
            else:
                self._add_chain(parent, chain)
                chain, parent = [], block_hash
                self._add_move(block_hash, before, min(before, change.tier))
        self._add_chain(parent, chain)

    def _add_chain(self, parent: int | None, blocks: list[dict[str, Any]]) -> None:
        if blocks:
            self._add({"type": "stored", "parent_hash": parent, "blocks": blocks})

    def _remove(self, block_hash: int, tier: Tier) -> None:
        copies = self._copies[block_hash]
        before = _level(copies)
        copies[tier] -= 1
        after = _level(copies)
        if after is None:
            del self._copies[block_hash]
            self._add({"type": "removed", "block_hashes": [block_hash]})
        elif before is not None:
            self._add_move(block_hash, before, after)

    def _add_move(self, block_hash: int, old: int, new: int) -> None:
        if old != new:
            level = {"type": "event_diff", "old_value": old, "new_value": new}
            self._add({"type": "updated", "block_hash": block_hash, "cache_level": level, "priority": None})

    def _add(self, data: dict[str, Any]) -> None:
        event = {"event_id": self._next, "data": data, "window_size": self._options.context_tokens}
        if self._rank is not None:
            event["attention_dp_rank"] = self._rank
        self._events.append(event)
        self._next += 1


def _level(copies: Sequence[int]) -> int | None:
    """The fastest tier of which there are copies."""
    return next((tier for tier, count in enumerate(copies) if count), None)


def _block(block_hash: int, token_ids: Sequence[int], salt: str | None) -> dict[str, Any]:
    return {
        "type": "stored_block",
        "block_hash": block_hash,
        "tokens": [{"type": "unique_token", "token_id": token, "token_extra_id": 0} for token in token_ids],
        "cache_level": 0,
        "priority": _PRIORITY,
        "mm_keys": [],
        "cache_salt": salt,
    }
