"""Texts that stand for the contents of messages while a template runs, and note what is asked about them.

A template that is given a `StandIn` can hand it on, write it, put it between other texts, and strip it. What it asks of
it beyond that is answered as for any usual text (it holds no such word, it is not blank), and what must be true of the
real text for that answer is noted as a guard. What has no such answer (its length, a part of it, its order among
others) ends the run with `Untraceable`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

_OPEN, _CLOSE = "\U0010f8f0", "\U0010f8f1"
"""Of private use: what is between them in a text names a stand-in."""


class Untraceable(Exception):
    """The template asks for something that depends on the very text of a content."""


@dataclass(slots=True)
class Guard:
    """What the content of a message must be like for the run to hold: without these texts, and perhaps not blank."""

    forbidden: set[str] = field(default_factory=set)
    not_blank: bool = False

    def forbid(self, text: Any) -> None:
        """The content does not hold `text`. Raises Untraceable for what cannot be looked for."""
        if type(text) is not str or not text:
            raise Untraceable(f"a content is compared with {text!r}")
        self.forbidden.add(text)


class _Opaque(str):
    """A text that must not be looked into: every method of texts ends the run, unless it is named below."""

    __slots__ = ()

    def plain(self) -> str:
        """The marks, as a text like any other."""
        return str.__str__(self)


def _ends_the_run(name: str) -> Callable[..., NoReturn]:
    def method(*_: Any, **__: Any) -> NoReturn:
        raise Untraceable(f"{name} of a content")

    return method


_HARMLESS = frozenset({
    "__class__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__getstate__", "__init__",
    "__init_subclass__", "__module__", "__new__", "__reduce__", "__reduce_ex__", "__repr__", "__setattr__",
    "__sizeof__", "__slots__", "__subclasshook__",
})  # fmt: skip
for _name in dir(str) + ["__bool__", "__radd__"]:
    if _name not in _HARMLESS:
        setattr(_Opaque, _name, _ends_the_run(_name))


class StandIn(_Opaque):
    """Stands for the content of one message, whole or stripped."""

    __slots__ = ("guard", "left", "message", "right")

    guard: Guard
    message: int
    left: bool
    right: bool

    def __new__(cls, message: int, guard: Guard, left: bool = False, right: bool = False) -> "StandIn":
        made = str.__new__(cls, _mark((message, left, right)))
        made.message, made.guard, made.left, made.right = message, guard, left, right
        return made

    def __bool__(self) -> bool:
        self.guard.not_blank = True
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            self._differs_from(other)
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # A content is no key.

    def __contains__(self, text: object) -> bool:
        self.guard.forbid(text)
        return False

    def startswith(self, text: Any, *ends: Any) -> bool:
        return self._begins_or_ends_with(text, ends)

    def endswith(self, text: Any, *ends: Any) -> bool:
        return self._begins_or_ends_with(text, ends)

    def strip(self, characters: Any = None) -> "StandIn":
        return self._stripped(characters, left=True, right=True)

    def lstrip(self, characters: Any = None) -> "StandIn":
        return self._stripped(characters, left=True, right=False)

    def rstrip(self, characters: Any = None) -> "StandIn":
        return self._stripped(characters, left=False, right=True)

    def split(self, separator: Any = None, *_: Any) -> list["StandIn"]:  # type: ignore[override]
        """In one piece, as long as it does not hold the separator."""
        self.guard.forbid(separator)
        return [self]

    def replace(self, old: Any, *_: Any) -> "StandIn":
        """Itself, as long as there is nothing to replace."""
        self.guard.forbid(old)
        return self

    def _differs_from(self, other: str) -> None:
        if type(other) is str and not other:
            self.guard.not_blank = True
        else:
            self.guard.forbid(other)

    def _begins_or_ends_with(self, text: Any, ends: tuple[Any, ...]) -> bool:
        if ends:
            raise Untraceable("a part of a content is looked at")
        for each in text if type(text) is tuple else (text,):
            self.guard.forbid(each)
        return False

    def _stripped(self, characters: Any, *, left: bool, right: bool) -> "StandIn":
        if characters is not None:
            raise Untraceable(f"{characters!r} is stripped from a content")
        return StandIn(self.message, self.guard, self.left or left, self.right or right)


METHODS = frozenset({"startswith", "endswith", "strip", "lstrip", "rstrip", "split", "replace"})
"""What templates may call on a stand-in."""


class Mixed(_Opaque):
    """A text with contents in it: it may be put into others and written, nothing else."""

    __slots__ = ()

    def __bool__(self) -> bool:
        if all(isinstance(piece, tuple) for piece in pieces(self.plain())):
            raise Untraceable("whether contents together are empty")
        return True

    __hash__ = None  # type: ignore[assignment]


Content = tuple[int, bool, bool]
"""A message, and whether its content is stripped on its left and right."""


def is_opaque(value: Any) -> bool:
    """Whether `value` is a text with contents in it."""
    return isinstance(value, _Opaque)


def shield(value: Any, guards: Mapping[int, Guard]) -> Any:
    """`value`; a text that is a content becomes its stand-in, one that holds some can no longer be looked into."""
    if type(value) is not str or _OPEN not in value:
        return value
    found = pieces(value)
    if len(found) == 1 and isinstance(found[0], tuple):
        message, left, right = found[0]
        return StandIn(message, guards[message], left, right)
    return Mixed(value)


def strip(text: str, guards: Mapping[int, Guard], *, left: bool, right: bool) -> Any:
    """`text` without the white space at its ends; a content that comes to stand there is stripped and not blank."""
    found = pieces(text)
    if left:
        found = _stripped_end(found, guards, str.lstrip, (True, False))
    if right:
        found = _stripped_end(found[::-1], guards, str.rstrip, (False, True))[::-1]
    return shield("".join(piece if isinstance(piece, str) else _mark(piece) for piece in found), guards)


def _stripped_end(
    found: list[str | Content], guards: Mapping[int, Guard], stripped: Callable[[str], str], sides: tuple[bool, bool]
) -> list[str | Content]:
    for i, piece in enumerate(found):
        if isinstance(piece, tuple):
            message, left, right = piece
            guards[message].not_blank = True
            return [(message, left or sides[0], right or sides[1]), *found[i + 1 :]]
        if rest := stripped(piece):
            return [rest, *found[i + 1 :]]
    return []


def pieces(text: str) -> list[str | Content]:
    """The texts, none empty, and the contents between them."""
    found: list[str | Content] = []
    for part in text.split(_OPEN):
        name, closed, rest = part.partition(_CLOSE)
        if closed:
            message, left, right = map(int, name.split(" "))
            found.append((message, bool(left), bool(right)))
        literal = rest if closed else name
        if literal:
            found.append(literal)
    return found


def guards_in(value: Any) -> dict[int, Guard]:
    """The guard of each message whose content is in `value`."""
    if isinstance(value, StandIn):
        return {value.message: value.guard}
    if isinstance(value, str) or not isinstance(value, Iterable):
        return {}
    inner = value.values() if isinstance(value, Mapping) else value
    return {message: guard for each in inner for message, guard in guards_in(each).items()}


def _mark(content: Content) -> str:
    message, left, right = content
    return f"{_OPEN}{message} {left:d} {right:d}{_CLOSE}"


def has_contents(value: Any) -> bool:
    """Whether a text holds contents and can still be looked into."""
    return isinstance(value, str) and not is_opaque(value) and _OPEN in value


def has_marks(text: str) -> bool:
    """Whether a template itself writes one of the marks."""
    return _OPEN in text or _CLOSE in text
