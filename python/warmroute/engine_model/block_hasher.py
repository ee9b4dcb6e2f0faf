"""The hashes an engine gives to its blocks: never those of another engine, as in vLLM."""

from collections.abc import Sequence

from warmroute.block import Namespace, hash_blocks


class BlockHasher:
    """Chained hashes of full blocks under a root of this engine's own.

    vLLM starts its chain from a random value of the process (NONE_HASH), so two engines name equal blocks
    differently and nobody may compare their hashes. Here the seed takes the place of the random value: it is folded
    into the salt that the root is made of.
    """

    def __init__(self, block_size: int, seed: int) -> None:
        self._block_size = block_size
        self._seed = seed

    def hashes(self, token_ids: Sequence[int], namespace: Namespace) -> list[int]:
        """One hash per full block of `token_ids`."""
        root = f"engine {self._seed}"
        own = Namespace(namespace.adapter, root if namespace.salt is None else f"{root}\n{namespace.salt}")
        return list(hash_blocks(token_ids, self._block_size, own))
