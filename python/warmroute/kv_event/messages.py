"""What an engine says about its KV cache, free of how each engine and version writes it on the wire."""

from typing import Any

import msgspec

from warmroute.block import EngineHash, Tier

_encode_key = msgspec.msgpack.Encoder().encode


def block_key(extras: list[Any]) -> bytes | None:
    """One stable key for the images and embeddings of a block: the msgpack array of its pairs and digests."""
    return _encode_key(extras) if extras else None


class BlockStored(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive blocks entered a tier: `block_hashes[0]` continues `parent` (None: the start of a prompt), each
    further one continues the one before it.

    `token_ids` covers all the blocks, `block_size` tokens each; where an engine leaves out tokens (offload
    placeholders) or blocks (sparse stores) the counts do not agree and `is_indexable` is False.
    `block_keys` holds, per block, what besides the tokens decides its content (images, prompt embeddings).
    `adapter_load` is the number that the engine gave a named adapter when it was loaded.
    """

    block_hashes: list[EngineHash]
    parent: EngineHash | None = None
    token_ids: list[int] = []
    block_size: int = 0
    tier: Tier = Tier.DEVICE
    adapter: str | None = None
    adapter_load: int | None = None
    salt: str | None = None
    block_keys: list[bytes | None] | None = None
    group: int | None = None
    spec_kind: str | None = None

    @property
    def is_placeholder(self) -> bool:
        """Whether it names blocks without their tokens, as vLLM's offloading connector does by default."""
        return not self.token_ids

    @property
    def is_indexable(self) -> bool:
        """Whether the tokens of every block are known, so that the blocks can be found by their content."""
        return self.block_size > 0 and len(self.token_ids) == len(self.block_hashes) * self.block_size


class BlockRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """One copy of each of these blocks left a tier."""

    block_hashes: list[EngineHash]
    tier: Tier = Tier.DEVICE
    group: int | None = None


class AllBlocksCleared(msgspec.Struct, frozen=True):
    """The engine dropped its whole prefix cache, in every tier."""


Event = BlockStored | BlockRemoved | AllBlocksCleared


class EventBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one scheduler step, in order.

    `timestamp` is the engine's own clock (unix seconds; some publishers send milliseconds), `rank` its data-parallel
    rank. `rejected` gives the reason for each event that could not be read; the others are in `events`.
    """

    timestamp: float
    rank: int | None
    events: list[Event]
    rejected: list[str]
