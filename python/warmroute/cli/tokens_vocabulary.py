"""What each token id of a `tokenizer.json` stands for, in bytes.

Decoding ids one by one would show U+FFFD for every token that holds a part of a character only, and drop the space
with which some tokenizers begin a word. So the strings of the vocabulary are read here as its decoder reads them:

    ByteLevel      each character stands for a byte, by GPT-2's table
    ByteFallback   `<0xE4>` is that byte
    Replace        `▁` is a space, with Metaspace as well
    WordPiece      `##` marks that a word goes on

Source: Hugging Face tokenizers 0.22, `decoders/` and `pre_tokenizers/byte_level.rs`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from warmroute.errors import ModelAssetError
from warmroute.tokenizer.declared_tokens import Declared

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is taken out of the text before anything else happens, a special one for instance.

    lstrip, rstrip: whether it swallows the white space before it, or after it.
    """

    text: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False


class Vocabulary:
    """Bytes by token id."""

    def __init__(self, names: Mapping[int, str], added: Mapping[int, AddedToken], kinds: frozenset[str]) -> None:
        """`names`: the model's own strings; `kinds`: the types of the steps of its decoder."""
        self._names = names
        self.added = added
        self._kinds = kinds

    @classmethod
    def read(cls, definition: bytes, added: Iterable[tuple[int, str]] = (), declared: Iterable[Declared] = ()) -> Self:
        """From the bytes of a `tokenizer.json`. Raises ModelAssetError.

        `added`: ids and texts of all added tokens; `declared`: flags that count over those in the file.
        """
        try:
            whole = msgspec.json.decode(definition)
            names = dict(_names(whole["model"].get("vocab") or {}))
            known = {token["id"]: _added(token) for token in whole.get("added_tokens") or ()}
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as exc:
            raise ModelAssetError(f"this is no tokenizer.json: {exc!r}"[:200]) from exc
        flags = dict(declared)
        known = {token: AddedToken(text, special=True) for token, text in added} | known
        known |= {token: _flagged(each, flags[each.text]) for token, each in known.items() if each.text in flags}
        return cls(names, known, frozenset(_types(whole.get("decoder") or whole.get("pre_tokenizer"))))

    def __contains__(self, token: int) -> bool:
        return token in self.added or token in self._names

    def name(self, token: int) -> str:
        """A token as the vocabulary writes it; `?` for an id that it does not have."""
        known = self.added.get(token)
        return known.text if known is not None else self._names.get(token, "?")

    def bytes_of(self, token: int) -> bytes:
        """What a token contributes to the text, before neighbours change it; nothing for an unknown id."""
        known = self.added.get(token)
        if known is not None and (known.special or "ByteLevel" in self._kinds):
            return known.text.encode()
        if known is not None:
            return known.text.replace(_SPACE, " ").encode()
        name = self._names.get(token)
        return b"" if name is None else self._bytes(name)

    def _bytes(self, name: str) -> bytes:
        if "ByteLevel" in self._kinds:
            return b"".join(_BYTES.get(character) or character.encode() for character in name)
        if "ByteFallback" in self._kinds and (found := _BYTE.fullmatch(name)):
            return bytes([int(found[1], 16)])
        if "WordPiece" in self._kinds:
            return name.removeprefix("##").encode()
        return name.replace(_SPACE, " ").encode()


def _added(token: Mapping[str, Any]) -> AddedToken:
    return AddedToken(token["content"], bool(token["special"]), bool(token.get("lstrip")), bool(token.get("rstrip")))


def _flagged(token: AddedToken, flags: tuple[bool, bool, bool, bool, bool]) -> AddedToken:
    special, _, lstrip, rstrip, _ = flags
    return AddedToken(token.text, special, lstrip, rstrip)


def _names(vocab: Any) -> Iterator[tuple[int, str]]:
    """An object of string and id, or, for Unigram, a list of string and score."""
    if isinstance(vocab, dict):
        for name, token in vocab.items():
            yield token, name
    else:
        for token, (name, _) in enumerate(vocab):
            yield token, name


def _types(step: Any) -> Iterator[str]:
    """The types of a decoder and of those that it is made of."""
    if isinstance(step, list):
        for each in step:
            yield from _types(each)
    elif isinstance(step, dict):
        yield from (value for name, value in step.items() if name == "type" and isinstance(value, str))
        yield from _types([value for name, value in step.items() if name in ("decoders", "pretokenizers")])


def _byte_table() -> dict[str, bytes]:
    """GPT-2's: bytes that print stand for themselves, the others for the characters from U+0100 on."""
    printing = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printing]
    table = {chr(byte): bytes([byte]) for byte in printing}
    return table | {chr(0x100 + place): bytes([byte]) for place, byte in enumerate(others)}


_BYTES = _byte_table()
