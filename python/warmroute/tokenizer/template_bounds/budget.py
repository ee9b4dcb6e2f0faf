"""What one rendering may cost: steps of work, the size of a value, and the memory that large texts hold.

A budget counts work and never looks at a clock, so the same template with the same conversation always ends the same
way. It starts with what small conversations need. Only when that is used up is the conversation measured, and the
budget extended by what its size can honestly ask for: a template gets far only with a request that is large itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from math import inf
from sys import getrefcount
from typing import Any, NoReturn

from warmroute.errors import TemplateTooCostly
from warmroute.tokenizer.template_bounds.namespace import TemplateNamespace

BASE_STEPS = 1_000_000
"""Steps for any conversation. One is a node of the template's syntax evaluated, 30 to 150 ns, so these are a tenth of a
second, and never more than one. Templates of today take 100 to 200 for a message of an agent, its text included."""

STEPS_PER_PAIR = 32
"""Steps for each pair of messages, because DeepSeek's and Kimi's templates walk the messages once per message: the body
of such a loop takes 15 to 30."""

PAIRED_MESSAGES = 2_000
"""Messages that count in pairs: 4 million pairs, which are 1 to 3 s of honest work and 25 s of the worst, are where a
rendering has to end. Longer conversations render as well, with a template that walks them a fixed number of times."""

STEPS_PER_VALUE = 128
"""Steps for each value in the request's JSON, a key being one: to write a schema as TypeScript takes 20 to 80."""

STEPS_PER_CHARACTER = 4
"""Steps for each character of the request: split into lines, each of which goes through a loop."""

BASE_LENGTH = 2**20
"""Characters in the longest text for any conversation. Copying, searching or printing one of these takes 0.1 to 5 ms,
which is how long one call into C may keep the interpreter from the router's loop."""

LENGTH_PER_CHARACTER = 4
"""What a text may grow by: a conversation of 16 MB may become 64 MB."""

LENGTH_PER_VALUE = 64
"""And for each value in the request's JSON: a line of its own, indented."""

BASE_WIDTH = 10_000
"""Values in the widest collection, all levels counted, for any conversation: compared, sorted or printed in 1 to
5 ms."""

WIDTH_PER_VALUE = 2
"""All the tools may be printed at once, and gathered in a list besides."""

CHARACTERS_PER_PIECE = 8
"""A text may be split into a piece for each of these, however long it is: lines have 30 to 80, words 6."""

LARGE_TEXT = 2**14
"""Characters from which a text's memory is watched while it lives; shorter ones are paid for by steps, for good."""

BASE_LARGE = 2**24
"""Characters that living large texts may have together, for any conversation."""

LARGE_PER_LENGTH = 3
"""And for each character by which the longest text may be longer: as pieces, as joined pieces, and as what is made."""

MAX_DEPTH = 100
"""Calls of macros and recursive loops inside each other. A JSON schema nests 10 deep; Python's stack ends at 135."""

_CHARACTERS_PER_VALUE = 8  # What a number, a bracket or a comma adds to a printed collection.
_SCALARS = frozenset({int, float, bool, type(None)})
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


class Budget:
    """What is left of one rendering's work. Used by one thread."""

    __slots__ = (
        "_extended",
        "_large",
        "_largest_live",
        "_live",
        "_request",
        "_sweep_at",
        "depth",
        "longest",
        "steps",
        "widest",
    )

    def __init__(self, request: Mapping[str, Any]) -> None:
        """`request`: the variables of the rendering, of which `messages` counts in pairs."""
        self.steps = BASE_STEPS
        self.longest = BASE_LENGTH
        self.widest = BASE_WIDTH
        self.depth = 0
        self._request = request
        self._extended = False
        self._large: list[str] = []
        self._live = 0
        self._sweep_at = self._largest_live = BASE_LARGE

    def spend(self, steps: int) -> None:
        """Pays for work. Raises TemplateTooCostly when nothing is left."""
        self.steps -= steps
        if self.steps < 0:
            self.overdrawn()

    def overdrawn(self) -> None:
        """Called when `steps` has become negative: takes the request's size into account, or ends the rendering."""
        self._extend()
        if self.steps < 0:
            self.refuse("does not come to an end")

    def refuse(self, why: str) -> NoReturn:
        """Ends the rendering. Nothing is left afterwards, so that no handler inside of it can go on."""
        self.steps = -1
        self._extended = True
        raise TemplateTooCostly(f"the chat template {why}")

    def allow_length(self, length: int) -> None:
        """To be asked before a text of `length` characters is made. Raises TemplateTooCostly."""
        if length > self.longest:
            self._extend()
            if length > self.longest:
                self.refuse(f"makes a text of {length:.0f} characters")

    def allow_width(self, width: int) -> None:
        """To be asked before a collection of `width` values is made or walked in C. Raises TemplateTooCostly."""
        if width > self.widest:
            self._extend()
            if width > self.widest:
                self.refuse(f"makes or walks a collection of {width:.0f} values")

    def made(self, text: str) -> str:
        """Pays for a text that was just made, and remembers it if its memory counts."""
        length = len(text)
        if length < LARGE_TEXT:
            self.steps -= length >> 2  # 4 characters a step: what a rendering makes is what it may keep.
        else:
            self.allow_length(length)
            self.spend(length >> 8)  # The time of a copy.
            self._watch(text)
        return text

    def collect(self, values: Iterable[Any]) -> list[Any]:
        """`values` as a list. Raises TemplateTooCostly before it is too long."""
        if isinstance(values, Sized):
            self.allow_width(len(values))
            made = not isinstance(values, list | tuple)  # Characters, or pairs of keys and values, of 50 to 80 bytes.
            self.spend(8 * len(values) if made else len(values) >> 1)
            return list(values)
        collected: list[Any] = []
        for value in values:
            collected.append(value)
            if len(collected) > self.widest:
                self.allow_width(len(collected))
            self.spend(4)
        return collected

    def ticking(self, values: Iterable[Any], steps: int) -> Iterator[Any]:
        """`values`, each paid for when it is taken."""
        for value in values:
            self.spend(steps)
            yield value

    def weigh(self, value: Any) -> tuple[int, int]:
        """The values and the characters in `value`, all levels counted, a shared one wherever it appears.

        What C code walks recursively (printing, comparing, JSON) is weighed first: twenty lists, each holding the one
        before twice, print a million values. Raises TemplateTooCostly.
        """
        width, characters = _weight(value, self.widest)
        if width > self.widest:
            self.allow_width(width)
            width, characters = _weight(value, self.widest)
            self.allow_width(width)
        self.allow_length(characters)
        self.spend(width + (characters >> 8))
        return width, characters

    def printed_length(self, value: Any) -> int:
        """About how many characters `value` has when it is printed. Raises TemplateTooCostly."""
        width, characters = self.weigh(value)
        return characters + _CHARACTERS_PER_VALUE * width

    def _watch(self, text: str) -> None:
        self._large.append(text)
        self._live += len(text)
        if self._live > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Forgets the large texts that nobody else holds, and counts the others."""
        different = list({id(text): text for text in self._large}.values())
        self._large.clear()
        self._large = [text for text in different if getrefcount(text) > 3]  # the list, the name and the argument
        self._live = sum(map(len, self._large))
        if self._live > self._largest_live:
            self._extend()
            if self._live > self._largest_live:
                self.refuse(f"holds {self._live} characters of text")
        self._sweep_at = self._live + BASE_LARGE

    def _extend(self) -> None:
        """Once per rendering: what the request's size can ask for."""
        if self._extended:
            return
        self._extended = True
        values, characters = _weight(dict(self._request), inf)
        pairs = min(_length(self._request.get("messages")), PAIRED_MESSAGES) ** 2
        self.steps += pairs * STEPS_PER_PAIR + values * STEPS_PER_VALUE + characters * STEPS_PER_CHARACTER
        longer = characters * LENGTH_PER_CHARACTER + values * LENGTH_PER_VALUE
        self.longest += longer
        self.widest += values * WIDTH_PER_VALUE + characters // CHARACTERS_PER_PIECE
        self._largest_live += longer * LARGE_PER_LENGTH


def _weight(value: Any, widest: float) -> tuple[int, int]:
    """The values (a key is one) and the characters in `value`, or in as much of it as is just wider than `widest`."""
    width, characters, waiting = 1, 0, [value]
    while waiting and width <= widest:
        value = waiting.pop()
        kind = type(value)
        if kind is dict:
            items: Iterable[Any] = value.values()
            width += 2 * len(value)
            characters += _characters(value)
        elif kind is list or kind in VIEWS or isinstance(value, tuple):
            items = value
            width += len(value)
        elif kind is TemplateNamespace:
            items = (value.values,)
            width += 1
        else:
            characters += len(value) if isinstance(value, str) else 0
            continue
        if width <= widest:
            for item in items:
                if type(item) is str:
                    characters += len(item)
                elif type(item) not in _SCALARS:
                    waiting.append(item)
    return width, characters


def _characters(keys: Iterable[Any]) -> int:
    try:
        return len("".join(keys))
    except TypeError:  # Some are numbers.
        return sum(len(key) for key in keys if isinstance(key, str))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | tuple) else 0
