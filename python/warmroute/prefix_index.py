"""Which worker holds which blocks, in which tier: the typed face of the Rust index.

    engine events  -> store, remove, clear        what a worker says it holds (confirmed)
    dispatch       -> predict, expire             what it will hold soon, or is assumed to hold where it says nothing
    a prompt       -> match                       how many leading blocks each worker holds

The semantics, in the order in which they matter:

- Blocks are found by their own hash (see `warmroute.block`); an engine's hashes are a map per worker to these.
- A store is a chain: each block continues its predecessor, the first one `parent`, or the root where parent is None.
- A block whose parent is unknown is an orphan: held back, never matched, linked when the parent is stored. A worker
  keeps `orphan_limit` of them; the oldest go first.
- Copies are counted per worker, engine hash and tier; a remove takes one. What is unknown is removed without effect.
- A store that says a known engine hash stands for other tokens replaces what the hash stood for; its copies move along,
  for the engine owes a remove for each of them. An orphan never replaces: it is older than what it contradicts.
- A store that names one of its own blocks as parent, repeats a hash or has the wrong number of tokens is skipped whole.
- A prediction is never counted beside a confirmed block: a store ends it, and confirmed blocks are not predicted. It
  ends at `expires_at`, or when the worker has more than its limit: the least recently predicted go first, and of one
  prompt the tail before the head, as an engine evicts. `expires_at` may be `math.inf`.
- A tier may have a limit: above it the oldest blocks go that no other held block follows. It is for stores that nobody
  takes back, as most offloading connectors never send a removal.
- What is said of an unknown worker is ignored and counted, so that late events of a forgotten one change nothing.
"""

from collections.abc import Sequence

from warmroute import _native
from warmroute._native import StoreResult
from warmroute.block import BlockHashes, EngineHash, Namespace, Overlap, Tier, root_hash

__all__ = ["ORPHAN_LIMIT", "PrefixIndex", "StoreResult"]

ORPHAN_LIMIT = 65_536
"""Blocks without a known parent that are kept per worker."""

_PLAIN = Namespace()


class PrefixIndex:
    """The index over all workers. A worker is an int below 2**32 that the caller never uses twice; it stands for one
    cache, so that a worker with several data-parallel ranks has one for each.

    Safe to share between threads: what is said of different workers is taken in side by side, and lookups wait for
    neither; what is said of one worker must come in order, from one thread at a time.
    """

    __slots__ = ("_native",)

    def __init__(self, orphan_limit: int = ORPHAN_LIMIT) -> None:
        self._native = _native.PrefixIndex(orphan_limit)

    def add_worker(self, worker: int, prediction_limit: int) -> None:
        """Makes a worker known, with the number of predicted blocks kept for it; again: changes that number."""
        self._native.add_worker(worker, prediction_limit)

    def set_limits(
        self,
        worker: int,
        device: int | None = None,
        host: int | None = None,
        disk: int | None = None,
        remote: int | None = None,
    ) -> None:
        """Limits the distinct confirmed blocks kept in each tier; None: no limit."""
        self._native.set_limits(worker, device, host, disk, remote)

    def forget(self, worker: int) -> int:
        """Drops a worker and all that is known of it; the number of blocks it held."""
        return self._native.forget(worker)

    def clear(self, worker: int) -> int:
        """Drops a worker's blocks, predictions and orphans; the number of blocks it held."""
        return self._native.clear(worker)

    def store(
        self,
        worker: int,
        tier: Tier,
        parent: EngineHash | None,
        engine_hashes: Sequence[EngineHash],
        token_ids: Sequence[int],
        block_size: int,
        namespace: Namespace = _PLAIN,
        block_keys: Sequence[bytes | None] | None = None,
    ) -> StoreResult:
        """Takes in a chain of blocks. `namespace` counts where parent is None: children inherit their parent's.

        TypeError or ValueError where a hash, token id or key is not of its type or range. Ints from -2**63 to 2**64 - 1
        are hashes (a negative one equals its two's complement), and so are bytes of any length.
        """
        root = root_hash(block_size, namespace) if parent is None and 0 < block_size < 2**32 else 0
        return self._native.store(worker, tier, parent, engine_hashes, token_ids, block_size, root, block_keys)

    def store_known(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> int:
        """A store that names hashes only, as offloading connectors send it: one more copy of each known block.

        Returns how many were known.
        """
        return self._native.store_known(worker, tier, engine_hashes)

    def remove(self, worker: int, tier: Tier, engine_hashes: Sequence[EngineHash]) -> int:
        """Takes one copy of each block out of a tier; how many of them were there."""
        return self._native.remove(worker, tier, engine_hashes)

    def predict(self, worker: int, hashes: BlockHashes, expires_at: float) -> None:
        """Assumes that a worker holds these blocks until `expires_at`: seconds on the clock of `match`, or `math.inf`.

        ValueError for NaN.
        """
        self._native.predict(worker, hashes, expires_at)

    def truncate(self, worker: int, hashes: BlockHashes, keep: int) -> int:
        """Drops the predictions of a prompt's blocks from number `keep` on; how many there were."""
        return self._native.truncate(worker, hashes, keep)

    def expire(self, now: float) -> int:
        """Drops the predictions with `expires_at` <= `now`; how many. ValueError unless `now` is finite."""
        return self._native.expire(now)

    def match(self, hashes: BlockHashes, now: float, among: set[int] | None = None) -> dict[int, Overlap]:
        """The overlap of each worker that holds block 0, contiguous from there; predictions count while they last.

        `among`: of these workers only. ValueError unless `now` is finite.
        """
        return self._native.match(hashes, now, among)

    def holders(self, hashes: BlockHashes, now: float, most: int) -> list[int]:
        """The workers of `match` that hold the most blocks, at most so many, the most first. ValueError as `match`."""
        return self._native.holders(hashes, now, most)

    def dump(self, worker: int) -> bytes:
        """All that a worker has announced, as `restore` takes it; predictions are left out. KeyError if unknown."""
        return self._native.dump(worker)

    def restore(self, worker: int, dump: bytes) -> int:
        """Replaces all that is known of a worker by a dump; the number of blocks in it.

        KeyError where the worker is unknown, ValueError where the bytes are no such dump: then nothing has changed.
        """
        return self._native.restore(worker, dump)

    @staticmethod
    def check_dump(dump: bytes) -> int:
        """The number of blocks in a dump. ValueError where it is none."""
        return _native.PrefixIndex.check_dump(dump)

    def workers(self) -> list[int]:
        """The known workers, ascending."""
        return self._native.workers()

    def blocks(self, worker: int) -> int:
        """Distinct blocks that a worker holds or is predicted to hold; 0 for an unknown one."""
        return self._native.blocks(worker)

    def block_sizes(self, worker: int) -> dict[int, int]:
        """Tokens per block that the worker has announced -> blocks stored so since it was last cleared."""
        return self._native.block_sizes(worker)

    def worker_stats(self, worker: int) -> dict[str, int]:
        """A worker's distinct blocks: `confirmed`, of these by tier, `predicted`; `orphans`; `holes`, which are blocks
        missing before others that are held. KeyError if unknown."""
        return self._native.worker_stats(worker)

    def size(self) -> int:
        """Distinct blocks over all workers."""
        return self._native.size()

    def stats(self) -> dict[str, int]:
        """What is held now, and what has been counted since the start."""
        return self._native.stats()

    def check_integrity(self) -> None:
        """AssertionError where the blocks' holders and the workers' maps disagree."""
        self._native.check_integrity()
