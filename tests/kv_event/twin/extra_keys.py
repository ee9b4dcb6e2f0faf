"""Adapter, salt, images and embeddings of each block; the crate's `extra_keys` says how they are told apart."""

from typing import Any

from kv_event.twin import msgpack
from kv_event.twin.msgpack import BadText, Map

Keys = list[bytes | None] | None


def split_extra_keys(
    extra_keys: Any, mm_keys: Any, blocks: int, adapter: str | None, at_prompt_start: bool
) -> tuple[str | None, Keys]:
    """(salt, key per block or None where no block has one).

    Raises ValueError where `extra_keys` are not one list (or None) per block, or hold bad text.
    """
    lists = [[] for _ in range(blocks)] if extra_keys is None else _extra_lists(extra_keys, blocks)
    lists = [extras[1:] if adapter is not None and extras[:1] == [adapter] else extras for extras in lists]
    salt = _take_salt(lists) if at_prompt_start and lists else None
    lists = [extras + images for extras, images in zip(lists, _images(mm_keys, blocks), strict=True)]
    keys = [msgpack.encode(extras) if extras else None for extras in lists]
    return salt, keys if any(keys) else None


def is_array(value: Any) -> bool:
    return isinstance(value, list) and not isinstance(value, Map)


def _extra_lists(extra_keys: Any, blocks: int) -> list[list[Any]]:
    if not is_array(extra_keys) or len(extra_keys) != blocks:
        raise ValueError("extra_keys are not one array or nil per block")
    for extras in extra_keys:
        if extras is not None and not is_array(extras):
            raise ValueError("extra_keys are not one array or nil per block")
        if any(isinstance(extra, BadText) for extra in extras or ()):
            raise ValueError("extra_keys hold text that is not UTF-8")
    return [extras or [] for extras in extra_keys]


def _take_salt(lists: list[list[Any]]) -> str | None:
    """Removes the last string from the first block and gives it back, unless the second block repeats it."""
    places = [place for place, extra in enumerate(lists[0]) if isinstance(extra, str)]
    if not places:
        return None
    salt: str = lists[0][places[-1]]
    if len(lists) > 1 and any(isinstance(extra, str) and extra == salt for extra in lists[1]):
        return None
    lists[0] = [extra for place, extra in enumerate(lists[0]) if place != places[-1]]
    return salt


def _images(mm_keys: Any, blocks: int) -> list[list[Any]]:
    if mm_keys is None or mm_keys == []:
        return [[] for _ in range(blocks)]
    if is_array(mm_keys) and len(mm_keys) == blocks and all(keys is None or is_array(keys) for keys in mm_keys):
        return [keys or [] for keys in mm_keys]
    return [[mm_keys] for _ in range(blocks)]
