"""What only SGLang sends: the salt as a field of its own, and tokens as bigrams.

Up to 0.5.4 a store has no parent wherever a node of the radix tree starts, and its hashes are not chained. Nothing on
the wire tells such a release apart. Its stores are taken at their word: a node from the middle of a prompt is filed as
the start of one, which costs hits (use 0.5.6 or newer) and gives credit only to a prompt that starts with those tokens.
"""

from typing import Any

from warmroute.kv_event.wire import Stored, StoredMap, TokenOrBigram


def stated_salt(event: Stored) -> str | None:
    """`cache_salt`: a key of a map event, or in a map that follows `medium` in an array event (0.5.18, 0.5.19)."""
    if isinstance(event, StoredMap):
        salt = event.cache_salt
    else:
        salt = event.lora_name.get("cache_salt") if isinstance(event.lora_name, dict) else None
    return salt if isinstance(salt, str) and salt else None


def plain_tokens(token_ids: list[TokenOrBigram] | None) -> list[int]:
    """Token ids; of EAGLE's bigrams `[[t0, t1], [t1, t2], ...]` the first of each, which is the token at that place.

    Raises ValueError where tokens and bigrams are mixed.
    """
    if not token_ids:
        return []
    if not isinstance(token_ids[0], tuple):
        return _all_of(int, token_ids)
    return [bigram[0] for bigram in _all_of(tuple, token_ids)]


def _all_of(kind: type[Any], token_ids: list[Any]) -> list[Any]:
    if set(map(type, token_ids)) != {kind}:
        raise ValueError("token_ids mix tokens and bigrams")
    return token_ids
