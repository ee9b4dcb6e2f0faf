"""Tokens that stand in a tokenizer's configuration and are added to those of its tokenizer.json.

As Hugging Face transformers adds them, 5.24, `tokenization_utils_tokenizers.py` (`TokenizersBackend.__init__`): first
those of `added_tokens_decoder` in the order of their numbers, whose flags count over those in the file; then the named
special tokens and the extra ones that are none yet.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from warmroute.tokenizer.assets import TokenizerAssets

Declared = tuple[str, tuple[bool, bool, bool, bool, bool]]
"""A token's text, and whether it is special, normalized, lstrip, rstrip and single_word."""

_EXTRA = ("extra_special_tokens", "additional_special_tokens")


def declared_tokens(assets: TokenizerAssets) -> list[Declared]:
    """Tokens with a number of their own; the flags given here count over those in the tokenizer.json."""
    return [token for token in _numbered(assets.config.get("added_tokens_decoder")) if token[0]]


def named_tokens(assets: TokenizerAssets) -> list[Declared]:
    """Special tokens by name, and extra ones; they count only where they are no added tokens already."""
    return list({text: (text, flags) for text, flags in reversed(list(_special(assets))) if text}.values())[::-1]


def _numbered(tokens: Any) -> Iterator[Declared]:
    if isinstance(tokens, Mapping):
        numbers = sorted((number for number in tokens if str(number).isdecimal()), key=int)
        for number in numbers:
            yield from _declared(tokens[number], special=False)


def _special(assets: TokenizerAssets) -> Iterator[Declared]:
    config = assets.config
    for name, text in assets.special_tokens.items():
        if isinstance(text, str):
            yield from _declared(config.get(name) or text, special=True)
    for name in _EXTRA:
        extra = config.get(name) or assets.special_tokens.get(name) or ()
        for token in extra.values() if isinstance(extra, Mapping) else extra:
            yield from _declared(token, special=True)


def _declared(token: Any, special: bool) -> Iterator[Declared]:
    """A token is its text, or an object with text and flags; anything else is none."""
    if isinstance(token, str):
        yield token, (special, not special, False, False, False)
    elif isinstance(token, Mapping) and isinstance(token.get("content"), str):
        is_special = special or token.get("special") is True
        left, right, word = (token.get(name) is True for name in ("lstrip", "rstrip", "single_word"))
        yield token["content"], (is_special, token.get("normalized", not is_special) is True, left, right, word)
