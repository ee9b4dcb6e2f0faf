"""Blocks: the unit in which engines cache a prompt, and the names under which the router knows them.

A block is `block_size` consecutive token ids. Its hash covers everything before it as well, so equal hashes mean equal
prefixes, whichever engine, process or restart they were seen in:

    root     = XXH3-64(b"warmroute/block/1", block size, adapter, salt)     each with its length or absence in front
    content  = XXH3-64(token ids as u32 little-endian)
               mixed with XXH3-64(block key) where the block has one (an image in it, for instance)
    block[i] = XXH3-64(block[i-1] or root, content[i])                      both as u64 little-endian

Local and chained hash in two steps are what Mooncake's Conductor recommends; an orphan can then be kept as 8 bytes
instead of its tokens. Only full blocks have a hash, as only full blocks are cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from warmroute import _native
from warmroute._native import BlockHashes, Overlap

__all__ = ["BlockHashes", "EngineHash", "Namespace", "Overlap", "Tier", "hash_blocks", "root_hash"]

EngineHash = int | bytes
"""An engine's own name for a block: opaque, valid on the worker that said it only."""


class Tier(IntEnum):
    """Where a worker keeps a block, nearest to the GPU first."""

    DEVICE = 0
    HOST = 1
    DISK = 2
    REMOTE = 3


@dataclass(frozen=True, slots=True)
class Namespace:
    """What keeps equal tokens apart: the LoRA adapter they are computed with, and the salt a client asked for."""

    adapter: str | None = None
    salt: str | None = None


def root_hash(block_size: int, namespace: Namespace) -> int:
    """The hash from which chains of `block_size` tokens start in this namespace. ValueError unless it is positive."""
    return _native.root_hash(block_size, namespace.adapter, namespace.salt)


def hash_blocks(
    token_ids: Sequence[int],
    block_size: int,
    namespace: Namespace,
    block_keys: Sequence[bytes | None] | None = None,
) -> BlockHashes:
    """Chained hashes of the full blocks of a prompt; a trailing partial block has none.

    `block_keys` has a key or None for each full block at least. ValueError for a token id outside 0 .. 2**32 - 1, a
    block size that is not positive or too few keys.
    """
    return _native.hash_blocks(token_ids, block_size, root_hash(block_size, namespace), block_keys)
