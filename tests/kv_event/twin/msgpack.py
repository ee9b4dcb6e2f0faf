"""MessagePack the slow and obvious way: bytes -> Python values -> the shortest bytes that mean them.

Text is `str`, or `BadText` where it is not UTF-8. A map is a list of its keys and values in turn, so that keys which no
dict could have, and keys that occur twice, survive. Nothing recurses, for values may be nested as deep as bytes last.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BadText:
    data: bytes


@dataclass(frozen=True)
class Extension:
    code: int
    data: bytes


class Map(list[Any]):
    """Key, value, key, value and so on."""

    def items(self) -> list[tuple[Any, Any]]:
        return list(zip(self[::2], self[1::2], strict=True))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, length: int) -> bytes:
        if self.at + length > len(self.data):
            raise ValueError("the bytes end within a value")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, length: int) -> str | BadText:
        data = self.take(length)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return BadText(data)

    def extension(self, length: int) -> Extension:
        return Extension(self.number(">B"), self.take(length))

    def head(self) -> tuple[Any, int]:
        """A value, and how many members it is to be filled with."""
        first = self.number(">B")
        if first < 0x80 or first >= 0xE0:
            return (first if first < 0x80 else first - 256), 0
        if first < 0x90:
            return Map(), 2 * (first & 0xF)
        if first < 0xA0:
            return [], first & 0xF
        if first < 0xC0:
            return self.text(first & 0x1F), 0
        return self.long_head(first)

    def long_head(self, first: int) -> tuple[Any, int]:
        if first in _CONSTANTS:
            return _CONSTANTS[first], 0
        if first in _NUMBERS:
            return self.number(_NUMBERS[first]), 0
        if 0xD4 <= first <= 0xD8:
            return self.extension(1 << (first - 0xD4)), 0
        if first not in _SIZED:
            raise ValueError("the bytes are not MessagePack")
        kind, form = _SIZED[first]
        length = self.number(form)
        if kind == "array":
            return [], length
        if kind == "map":
            return Map(), 2 * length
        return {"bytes": self.take, "text": self.text, "extension": self.extension}[kind](length), 0


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    **dict(zip(range(0xCC, 0xD4), (">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True)),
}
_LENGTHS = (">B", ">H", ">I")
_SIZED = {
    **{0xC4 + width: ("bytes", form) for width, form in enumerate(_LENGTHS)},
    **{0xC7 + width: ("extension", form) for width, form in enumerate(_LENGTHS)},
    **{0xD9 + width: ("text", form) for width, form in enumerate(_LENGTHS)},
    **{0xDB + width: ("array", form) for width, form in enumerate(_LENGTHS) if width},
    **{0xDD + width: ("map", form) for width, form in enumerate(_LENGTHS) if width},
}


def decode(data: bytes) -> Any:
    """The one value that the bytes are. ValueError where they are none, or more."""
    reader = _Reader(data)
    root: list[Any] = []
    unfilled = [(root, 1)]
    while unfilled:
        container, members = unfilled[-1]
        if len(container) == members:
            unfilled.pop()
            continue
        value, inner = reader.head()
        container.append(value)
        if inner:
            unfilled.append((value, inner))
    if reader.at != len(data):
        raise ValueError("bytes follow the value")
    return root[0]


def encode(value: Any) -> bytes:
    """The shortest form of each value; floats are of 64 bits."""
    out = bytearray()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        out += _encode_head(value)
        if isinstance(value, list):
            waiting.extend(reversed(value))
    return bytes(out)


def _encode_head(value: Any) -> bytes:
    """A value, but of a container only how many members follow."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    return _ENCODERS[type(value)](value)


def _encode_float(value: float) -> bytes:
    # All that are no number are one.
    return b"\xcb" + (struct.pack(">d", value) if value == value else b"\x7f\xf8" + bytes(6))


def _encode_text(data: bytes) -> bytes:
    return _sized(len(data), (0xA0, 32), (0xD9, 0xDA, 0xDB)) + data


def _encode_extension(value: Extension) -> bytes:
    length = len(value.data)
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(length)
    head = _sized(length, None, (0xC7, 0xC8, 0xC9)) if fixed is None else bytes([fixed])
    return head + bytes([value.code]) + value.data


def _encode_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">B" if value >= 0 else ">b", value)
    forms = ((0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xCF, ">Q"))
    if value < 0:
        forms = ((0xD0, ">b"), (0xD1, ">h"), (0xD2, ">i"), (0xD3, ">q"))
    for head, form in forms:
        bits = 8 * struct.calcsize(form)
        if -(1 << (bits - 1)) <= value < 1 << bits:
            return bytes([head]) + struct.pack(form, value)
    raise ValueError(f"{value} does not fit in 64 bits")


def _sized(length: int, short: tuple[int, int] | None, heads: tuple[int | None, int, int]) -> bytes:
    if short is not None and length < short[1]:
        return bytes([short[0] | length])
    for head, form in zip(heads, _LENGTHS, strict=True):
        if head is not None and length < 1 << (8 * struct.calcsize(form)):
            return bytes([head]) + struct.pack(form, length)
    raise ValueError(f"a length of {length} does not fit")


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    int: _encode_int,
    float: _encode_float,
    str: lambda value: _encode_text(value.encode()),
    BadText: lambda value: _encode_text(value.data),
    bytes: lambda value: _sized(len(value), None, (0xC4, 0xC5, 0xC6)) + value,
    list: lambda value: _sized(len(value), (0x90, 16), (None, 0xDC, 0xDD)),
    Map: lambda value: _sized(len(value) // 2, (0x80, 16), (None, 0xDE, 0xDF)),
    Extension: _encode_extension,
}
