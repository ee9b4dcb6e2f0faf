"""Tools, documents and examples that are the same but come in another order."""

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from warmroute.doctor.arrangement import Arrangement, is_shuffled, renumbered, unnumbered
from warmroute.doctor.case import Case, Pair, message_path
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds.labels import DOCUMENT, EXAMPLE
from warmroute.doctor.leaves import Path, Zone, messages_of, replaced, value_at, with_messages
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.openai_api import Endpoint, JsonObject

# How texts fall into blocks, the largest first; what separates them is kept where it is.
_SEPARATORS = {
    "paragraphs": re.compile(r"(\n[ \t\r]*\n\s*)"),
    "elements": re.compile(r"((?<=>)\s*(?=<[^/]))"),
    "lines": re.compile(r"(\n)"),
}
_AROUND = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)
_SHORTEST_BLOCK = 12


@dataclass(frozen=True, slots=True)
class SortedTools:
    """Tools by their names."""

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with them."""
        tools = body.get("tools")
        return {**body, "tools": sorted(tools, key=_tool_order)} if isinstance(tools, list) else dict(body)


@dataclass(frozen=True, slots=True)
class ArrangedItems:
    """The items of a list in one order."""

    path: Path
    arrangement: Arrangement

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with it."""
        items = value_at(body, self.path)
        if not isinstance(items, list):
            return dict(body)
        keys = item_keys(items)
        arranged = self.arrangement.arranged(items, keys)
        places = [at for at, key in enumerate(keys) if key in self.arrangement.rank]
        for at in places:
            arranged[at] = _counted_as(arranged[at], items[at])
        return _body(replaced(body, self.path, arranged))


@dataclass(frozen=True, slots=True)
class ArrangedTurns:
    """The messages of a conversation in one order."""

    endpoint: Endpoint
    arrangement: Arrangement

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with it."""
        messages = messages_of(body, self.endpoint)
        arranged = self.arrangement.arranged(messages, item_keys(messages))
        return with_messages(body, self.endpoint, arranged) if messages else dict(body)


@dataclass(frozen=True, slots=True)
class ArrangedBlocks:
    """The blocks of a text in one order."""

    path: Path
    separator: str
    arrangement: Arrangement

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with it."""
        text = value_at(body, self.path)
        if not isinstance(text, str):
            return dict(body)
        parts = _SEPARATORS[self.separator].split(text)
        # The white space around a block stays where it is.
        around = [_AROUND.fullmatch(block) for block in parts[::2]]
        blocks = [found[2] if found is not None else "" for found in around]
        keys = [unnumbered(block) for block in blocks]
        arranged = self.arrangement.arranged(blocks, keys)
        moved = [at for at, key in enumerate(keys) if key in self.arrangement.rank and re.search(r"\d", blocks[at])]
        counted = [at for at in moved if keys[at] != blocks[at].strip()]
        for at, block in zip(counted, _counted(arranged, blocks, counted), strict=True):
            arranged[at] = block
        parts[::2] = [
            block if found is None else found[1] + block + found[3]
            for found, block in zip(around, arranged, strict=True)
        ]
        return _body(replaced(body, self.path, "".join(parts)))


def _counted_as(item: Any, before: Any) -> Any:
    """An item with the numbers that count it from the one that stood there before."""
    if not isinstance(item, dict) or not isinstance(before, dict):
        return item
    counting = {
        name: before[name]
        for name, value in item.items()
        if isinstance(before.get(name), type(value)) and _is_count(value) and _is_count(before[name])
    }
    return {**item, **counting}


def _is_count(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip("[]()#. ").isdigit()
    return isinstance(value, int) and not isinstance(value, bool)


def _counted(arranged: Sequence[str], before: Sequence[str], places: Sequence[int]) -> list[str]:
    return renumbered([arranged[at] for at in places], [before[at] for at in places])


def _body(value: Any) -> JsonObject:
    assert isinstance(value, dict)
    return value


def _detect(pair: Pair) -> Sequence[Clue]:
    if pair.parted is None:
        return []
    left, right = pair.parted
    if left.zone is Zone.TOOLS and right.zone is Zone.TOOLS:
        return _tools(pair)
    if left.zone is Zone.DOCUMENTS:
        return _items(pair, ("documents",), Kind.DOCUMENT_ORDER)
    in_parts = [at for at, step in enumerate(left.path) if step == "content" and len(left.path) > at + 1]
    clues = _items(pair, left.path[: in_parts[0] + 1], None) if in_parts else []
    return clues or (_messages(pair) if left.message >= 0 else []) or _blocks(pair)


def _tools(pair: Pair) -> Sequence[Clue]:
    left, right = _tool_names(pair.left.body), _tool_names(pair.right.body)
    if left == right or sorted(left) != sorted(right):
        return []
    at = next(at for at, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
    return [Clue(Kind.TOOL_ORDER, ("tools", at), 0, left[at], right[at])]


def _tool_names(body: JsonObject) -> list[str]:
    tools = body.get("tools")
    return [_tool_name(tool) for tool in tools] if isinstance(tools, list) else []


def _tool_name(tool: Any) -> str:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else canonical(tool)


def _tool_order(tool: Any) -> tuple[str, str]:
    return _tool_name(tool), canonical(tool)


def canonical(value: Any) -> str:
    """A JSON value as a text that the order of its keys does not change."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def item_keys(items: Sequence[Any]) -> list[Hashable]:
    """What makes items of a list the same; a number that counts them, as a document's id may, does not."""
    return [unnumbered(each) if isinstance(each, str) else _uncounted(each) for each in items]


def _uncounted(item: Any) -> str:
    """An item without what may count it: numbers in its short fields, and the first one in its text."""
    if not isinstance(item, dict):
        return canonical(item)
    return canonical({name: _without_number(value) for name, value in item.items()})


def _without_number(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return "#"
    return unnumbered(value) if isinstance(value, str) else value


def _items(pair: Pair, path: Path, kind: Kind | None) -> Sequence[Clue]:
    values = value_at(pair.left.body, path), value_at(pair.right.body, path)
    if not isinstance(values[0], list) or not isinstance(values[1], list):
        return []
    left, right = item_keys(values[0]), item_keys(values[1])
    if not is_shuffled(left, right, lambda key: len(str(key))):
        return []
    at = _parting(left, right)
    shown = _shown(values[0][at]), _shown(values[1][at])
    return [Clue(kind or _order_of("\n".join(shown)), (*path, at), 0, *shown, detail=path)]


def _messages(pair: Pair) -> Sequence[Clue]:
    """Examples that are given as turns of a conversation before the one that counts."""
    sides = [messages_of(side.body, side.endpoint) for side in (pair.left, pair.right)]
    left, right = item_keys(sides[0]), item_keys(sides[1])
    if not is_shuffled(left, right, lambda key: len(str(key))):
        return []
    at = _parting(left, right)
    shown = _shown(sides[0][at]), _shown(sides[1][at])
    return [Clue(Kind.EXAMPLE_ORDER, message_path(pair.left, at), 0, *shown, "turns", ("messages",))]


def _parting(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    return next(at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)


def _shown(item: Any) -> str:
    text = item.get("text", item.get("content")) if isinstance(item, dict) else item
    return text if isinstance(text, str) else canonical(item)


def _blocks(pair: Pair) -> Sequence[Clue]:
    assert pair.parted is not None
    left, right = pair.parted
    if left.path != right.path:
        return []
    for name in _SEPARATORS:
        keys = block_keys(left.text, name), block_keys(right.text, name)
        if not is_shuffled(*keys, weight=lambda key: len(str(key))):
            continue
        at = _parting(*keys)
        moved = "\n".join(str(key) for key in keys[0][at:] if key in set(keys[1]))
        offset = max(0, left.text.find(str(keys[0][at])))
        kind = _order_of(moved)
        return [Clue(kind, left.path, offset, str(keys[0][at]), str(keys[1][at]), detail=name)]
    return []


def block_keys(text: str, separator: str) -> list[Hashable]:
    """What makes blocks the same, of a text that falls into several; short ones are marks between them."""
    blocks = [unnumbered(block) for block in _SEPARATORS[separator].split(text)[::2]]
    return [block for block in blocks if len(block) >= _SHORTEST_BLOCK]


def _order_of(text: str) -> Kind:
    examples, documents = len(EXAMPLE.findall(text)), len(DOCUMENT.findall(text))
    return Kind.EXAMPLE_ORDER if examples > documents else Kind.DOCUMENT_ORDER


def _judge(suspect: Suspect, cases: Sequence[Case]) -> Verdict | None:
    if suspect.kind is Kind.TOOL_ORDER:
        return Verdict(suspect.kind, SortedTools(), "send the tools in one order, such as by name")
    what = "examples" if suspect.kind is Kind.EXAMPLE_ORDER else "documents"
    advice = f"put the same {what} into one order, such as that of their names"
    detail = suspect.clues[0][1].detail
    if detail == "turns":
        endpoint = cases[0].endpoint
        ranks = Arrangement.of(item_keys(messages_of(case.body, endpoint)) for case in cases)
        return Verdict(suspect.kind, ArrangedTurns(endpoint, ranks), advice)
    if isinstance(detail, str):
        texts = [value_at(case.body, suspect.path) for case in cases]
        ranks = Arrangement.of(block_keys(text, detail) for text in texts if isinstance(text, str))
        return Verdict(suspect.kind, ArrangedBlocks(suspect.path, detail, ranks), advice)
    lists = [value_at(case.body, detail) for case in cases]
    ranks = Arrangement.of(item_keys(each) for each in lists if isinstance(each, list))
    return Verdict(suspect.kind, ArrangedItems(detail, ranks), advice)


GROUP = KindGroup(_detect, _judge)
