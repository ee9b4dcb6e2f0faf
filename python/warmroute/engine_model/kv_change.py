"""What happened to the prefix cache in a step; the emulator turns these into an engine's KV events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from warmroute.block import Namespace, Tier


@dataclass(frozen=True, slots=True)
class KvStored:
    """Consecutive blocks got their hashes: one change per request and step, as vLLM announces it.

    `token_ids` are `len(block_hashes) * block_size` ids; only a partial block, which comes alone, has fewer. `parent`
    is the hash of the block before the first one, or None where the first is block 0 of its request.

    In a slower tier than the GPU a block is announced by its hash alone: what is in it was told when the GPU got it,
    which still holds it at this moment or has just lost it to a tier that does.
    """

    block_hashes: Sequence[int]
    parent: int | None
    token_ids: Sequence[int]
    block_size: int
    namespace: Namespace
    tier: Tier = Tier.DEVICE


@dataclass(frozen=True, slots=True)
class KvRemoved:
    """One block of a tier lost its hash because it is used for something else now."""

    block_hash: int
    tier: Tier = Tier.DEVICE


@dataclass(frozen=True, slots=True)
class KvCleared:
    """The whole prefix cache was dropped, in every tier."""


KvChange: TypeAlias = KvStored | KvRemoved | KvCleared
