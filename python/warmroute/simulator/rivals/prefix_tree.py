"""A radix tree over block hashes with the workers that were sent each prefix: what text-matching routers keep.

    node: a run of blocks that nobody has parted from yet
      holders: lane -> when a prompt of that lane last ended here (0: only passed through)
      creator: the lane whose prompt made these blocks known

Hashes are chained, so two runs that are equal at a place are equal before it: where they part is found by bisection.
A lane that holds a node holds all nodes above it.
"""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Container, Iterator

from warmroute.worker import LaneKey


class _Node:
    __slots__ = ("children", "creator", "hashes", "holders", "parent")

    def __init__(
        self, hashes: "array[int]", parent: "_Node | None", creator: LaneKey | None, holders: dict[LaneKey, int]
    ) -> None:
        self.hashes = hashes
        self.parent = parent
        self.creator = creator
        self.holders = holders
        self.children: dict[int, _Node] = {}

    def is_leaf_of(self, lane: LaneKey) -> bool:
        return not any(lane in child.holders for child in self.children.values())


class PrefixTree:
    """Who was sent which prefix. Sizes are in blocks."""

    def __init__(self) -> None:
        self._root = _Node(array("Q"), None, None, {})
        self._inserts = 0
        self.sizes: dict[LaneKey, int] = {}

    def insert(self, hashes: "array[int]", lane: LaneKey) -> None:
        """Note that this lane was sent a prompt of these blocks."""
        self._inserts += 1
        self.sizes.setdefault(lane, 0)
        node, at = self._root, 0
        while at < len(hashes):
            child = node.children.get(hashes[at])
            if child is None:
                child = _Node(hashes[at:], node, lane, {})
                node.children[hashes[at]] = child
            shared = _shared(child.hashes, hashes, at)
            if shared < len(child.hashes):
                child = _split(node, child, shared)
            if lane not in child.holders:
                child.holders[lane] = 0
                self.sizes[lane] += len(child.hashes)
            node, at = child, at + shared
        if node is not self._root:
            node.holders[lane] = self._inserts

    def remembered(self, hashes: "array[int]") -> tuple[int, LaneKey | None]:
        """How many leading blocks are known, and the one lane that is remembered for the last of them."""
        blocks, node = 0, self._root
        for node, blocks in self._path(hashes):  # noqa: B007 - the last ones are wanted
            pass
        if node.creator in node.holders:
            return blocks, node.creator
        return blocks, next(iter(node.holders), None)

    def holders(self, hashes: "array[int]", among: Container[LaneKey]) -> tuple[int, list[LaneKey]]:
        """The most leading blocks that any lane in `among` was sent, and all of those lanes; none: 0 and nobody."""
        blocks, found = 0, list[LaneKey]()
        for node, end in self._path(hashes):
            here = [lane for lane in node.holders if lane in among]
            if not here:
                break
            blocks, found = end, here
        return blocks, found

    def held(self, hashes: "array[int]") -> dict[LaneKey, int]:
        """How many leading blocks each lane was sent; lanes with none are left out."""
        blocks: dict[LaneKey, int] = {}
        for node, end in self._path(hashes):
            blocks.update(dict.fromkeys(node.holders, end))
        return blocks

    def evict(self, most: int) -> None:
        """Take from every lane of more than `most` blocks the ends of prompts that it was sent longest ago."""
        heavy = {lane: size for lane, size in self.sizes.items() if size > most}
        if not heavy:
            return
        order = 0
        heap: list[tuple[int, int, LaneKey, _Node]] = []
        for node in self._nodes():
            for lane, stamp in node.holders.items():
                if lane in heavy and node.is_leaf_of(lane):
                    heap.append((stamp, order, lane, node))
                    order += 1
        heapq.heapify(heap)
        while heap:
            _, _, lane, node = heapq.heappop(heap)
            if self.sizes[lane] <= most:
                continue
            parent = self._drop(node, lane)
            if parent is not self._root and parent.is_leaf_of(lane):
                heapq.heappush(heap, (parent.holders[lane], order, lane, parent))
                order += 1

    def _drop(self, node: _Node, lane: LaneKey) -> _Node:
        """Take the lane from a node, and the node from the tree when nobody is left; gives the node above."""
        assert node.parent is not None, "the root is nobody's"
        self.sizes[lane] -= len(node.hashes)
        del node.holders[lane]
        if not node.holders and not node.children:
            del node.parent.children[node.hashes[0]]
        return node.parent

    def _path(self, hashes: "array[int]") -> Iterator[tuple[_Node, int]]:
        """The nodes along a prompt, each with how many of the prompt's blocks are matched at its end."""
        node, at = self._root, 0
        while at < len(hashes):
            child = node.children.get(hashes[at])
            if child is None:
                return
            shared = _shared(child.hashes, hashes, at)
            at += shared
            yield child, at
            if shared < len(child.hashes):
                return
            node = child

    def _nodes(self) -> Iterator[_Node]:
        below = list(self._root.children.values())
        while below:
            node = below.pop()
            yield node
            below.extend(node.children.values())


def _shared(run: "array[int]", hashes: "array[int]", at: int) -> int:
    """How many blocks of `run`, of which the first is there, are found in `hashes` from `at` on."""
    most = min(len(run), len(hashes) - at)
    if run[most - 1] == hashes[at + most - 1]:
        return most
    return bisect_left(range(most), True, key=lambda place: run[place] != hashes[at + place])


def _split(parent: _Node, child: _Node, at: int) -> _Node:
    """Part a node in two; gives the upper one, which has the lower one's holders and creator."""
    upper = _Node(child.hashes[:at], parent, child.creator, dict(child.holders))
    child.hashes = child.hashes[at:]
    child.parent = upper
    upper.children[child.hashes[0]] = child
    parent.children[upper.hashes[0]] = upper
    return upper
