"""What only vLLM sends: the extra keys of each block (`extra_keys`, one entry per block hash, since 0.17).

Per block, in this order: the adapter's name, image keys, the cache salt (only at the start of a prompt) and digests of
prompt embeddings. Nothing tags them (`to_event_extra_keys` in `vllm/v1/core/kv_cache_utils.py`), so they are told apart
by type and place:

- a pair `[identifier, offset]` is an image at that offset relative to the block (0.19 on), bytes are embeddings;
- a bare string is the adapter if it is the adapter's name, otherwise the salt in the first block of a prompt;
- 0.17 and 0.18 send images as bare strings too. In the first block the last such string is the salt, unless the
  second block repeats it, as an image that spans both would. Where the guess is wrong the blocks are filed under a salt
  that nobody asks for: a miss, never credit for somebody else's image.
"""

from typing import Any

import msgspec

_encode_key = msgspec.msgpack.Encoder().encode


def block_key(extras: list[Any]) -> bytes | None:
    """One stable key for the images and embeddings of a block: the msgpack array of its pairs and digests."""
    return _encode_key(extras) if extras else None


def split_extra_keys(
    extra_keys: Any, blocks: int, adapter: str | None, at_prompt_start: bool
) -> tuple[str | None, list[bytes | None] | None]:
    """Extra keys of `blocks` blocks -> (salt, key per block or None where no block has one).

    Raises ValueError where they are not one list (or None) per block.
    """
    if extra_keys is None:
        return None, None
    if not isinstance(extra_keys, list) or len(extra_keys) != blocks:
        raise ValueError(f"extra_keys are not one entry per block ({blocks} blocks)")
    if not any(extra_keys):
        return None, None
    per_block = [_without_adapter(extras, adapter) for extras in extra_keys]
    salt = _take_salt(per_block) if at_prompt_start else None
    keys = [block_key(extras) for extras in per_block]
    return salt, keys if any(keys) else None


def _without_adapter(extras: Any, adapter: str | None) -> list[Any]:
    """The extras of one block less the adapter, which comes first; a salt of the same name further on stays."""
    if extras is None:
        return []
    if not isinstance(extras, list):
        raise ValueError(f"the extra keys of a block are {type(extras).__name__}, not an array")
    return extras[1:] if adapter is not None and extras[:1] == [adapter] else extras


def _take_salt(per_block: list[list[Any]]) -> str | None:
    """Removes the salt from the first block and gives it back."""
    strings = [extra for extra in per_block[0] if isinstance(extra, str)]
    if not strings or (len(per_block) > 1 and strings[-1] in per_block[1]):
        return None
    salt = strings[-1]
    first = list(per_block[0])
    del first[len(first) - 1 - first[::-1].index(salt)]
    per_block[0] = first
    return salt
