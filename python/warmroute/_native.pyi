"""The Rust core. Private: use `warmroute.block`, `warmroute.prefix_index` and `warmroute.gateway`."""

from collections.abc import Iterator, Sequence
from typing import final

__version__: str

# --- index ---

__all__ = ["BlockHashes", "PrefixIndex", "StoreResult", "__version__", "hash_blocks", "root_hash"]

@final
class BlockHashes:
    """An immutable sequence of chained block hashes, unsigned 64-bit, block 0 first."""

    @staticmethod
    def from_list(hashes: Sequence[int]) -> BlockHashes: ...
    def prefix(self, blocks: int) -> BlockHashes:
        """The first `blocks` hashes (all of them where there are fewer), sharing memory with this sequence."""

    def to_list(self) -> list[int]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class StoreResult:
    """What became of the blocks of one store; all but `linked` add up to the number of blocks in it."""

    @property
    def stored(self) -> int:
        """Blocks now held in that tier that were not before."""

    @property
    def duplicate(self) -> int:
        """Further copies of blocks that the tier held already."""

    @property
    def orphaned(self) -> int:
        """Blocks whose parent is unknown, held back until it is stored."""

    @property
    def rejected(self) -> int:
        """Blocks of a store that contradicts itself: skipped as a whole."""

    @property
    def ignored(self) -> int:
        """Blocks of a worker that is not (or no longer) known."""

    @property
    def linked(self) -> int:
        """Earlier orphans that found their parent through this store."""

def root_hash(block_size: int, adapter: str | None, salt: str | None) -> int:
    """The hash from which the chains of one namespace start. ValueError when `block_size` is not positive."""

def hash_blocks(
    token_ids: Sequence[int], block_size: int, root: int, block_keys: Sequence[bytes | None] | None = None
) -> BlockHashes:
    """Chained hashes of the full blocks of `token_ids` (ints below 2**32; fastest as a list or a buffer of uint32).

    ValueError for a token id out of range, a block size of 0 or fewer keys than full blocks; TypeError for other types.
    """

@final
class PrefixIndex:
    """Which worker holds which block, in which tier. Safe to share between threads."""

    def __new__(cls, orphan_limit: int = 65536) -> PrefixIndex: ...
    def add_worker(self, worker: int, prediction_limit: int) -> None: ...
    def forget(self, worker: int) -> int: ...
    def clear(self, worker: int) -> int: ...
    def store(
        self,
        worker: int,
        tier: int,
        parent: int | bytes | None,
        engine_hashes: Sequence[int | bytes],
        token_ids: Sequence[int],
        block_size: int,
        root: int,
        block_keys: Sequence[bytes | None] | None = None,
    ) -> StoreResult: ...
    def store_known(self, worker: int, tier: int, engine_hashes: Sequence[int | bytes]) -> int: ...
    def remove(self, worker: int, tier: int, engine_hashes: Sequence[int | bytes]) -> int: ...
    def predict(self, worker: int, hashes: BlockHashes, expires_at: float) -> None: ...
    def expire(self, now: float) -> int: ...
    def match(self, hashes: BlockHashes, now: float) -> list[tuple[int, tuple[int, int, int, int, int]]]: ...
    def workers(self) -> list[int]: ...
    def blocks(self, worker: int) -> int: ...
    def size(self) -> int: ...
    def stats(self) -> dict[str, int]: ...
    def check_integrity(self) -> None: ...

# --- relay --- (names of this part: `__all__ += [...]`)
