"""Which requests belong together: those that share a long text, wherever it stands, or go on from one another."""

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest

from warmroute.doctor.chunks import weighed
from warmroute.doctor.leaves import Leaf, Zone
from warmroute.openai_api import Endpoint

# Pieces that are drawn from the texts of a request, and the part of them that two requests of a family share: where
# half of either text is the other's, that is a third of the pieces of both.
_DRAWN, _ALIKE = 64, 0.35
# Characters of tools and system prompt; shorter ones tell nothing, and many applications have the same.
_LONG_HEAD = 256
_IN_HEAD = (Zone.TOOLS, Zone.DOCUMENTS, Zone.SYSTEM)
# Families that share a piece: a sentence that many applications have tells little.
_MOST_FAMILIES = 8
# Requests after which the pieces of one that was known by them are remembered anew: what is used is not forgotten.
_REMEMBERED_EACH = 8
# Of memory for a piece or a turn that is remembered.
_BYTES_EACH = 250


@dataclass(frozen=True)
class Signature:
    """What a request is known by: its texts; and what keeps families apart: the endpoint, the application."""

    leaves: Sequence[Leaf]
    kin: int

    @cached_property
    def _head(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.zone in _IN_HEAD]

    @cached_property
    def exact(self) -> Hashable:
        """Its tools and system prompt as they are; None where it has none."""
        return hash((self.kin, *((leaf.zone, leaf.text) for leaf in self._head))) if self._head else None

    @cached_property
    def has_long_head(self) -> bool:
        """Whether these tell enough."""
        return sum(len(leaf.text) for leaf in self._head) >= _LONG_HEAD

    @cached_property
    def sketch(self) -> list[int]:
        """Some pieces of these, of equal texts the same ones; of all texts where these are short."""
        return self._drawn(self._head if self.has_long_head else self.leaves)

    @cached_property
    def wide_sketch(self) -> list[int]:
        """The same of these and the first message."""
        others = [leaf for leaf in self.leaves if leaf.zone not in _IN_HEAD]
        return self._drawn([*self._head, *(leaf for leaf in others if leaf.message == others[0].message)])

    def _drawn(self, leaves: Sequence[Leaf]) -> list[int]:
        """Those with the smallest hashes: two texts that share a part of their pieces share that part of the drawn."""
        return [hash((self.kin, piece)) for piece in nsmallest(_DRAWN, weighed(leaves))]

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """A hash for each message that is not the system's, covering all before it."""
        return tuple(_turns(self.leaves, self.kin))


def _turns(leaves: Sequence[Leaf], kin: int) -> Iterator[int]:
    covered, current = kin, -1
    for leaf in leaves:
        if leaf.message < 0 or leaf.zone is Zone.SYSTEM:
            continue
        if leaf.message != current and current >= 0:
            yield covered
        current = leaf.message
        covered = hash((covered, leaf.zone, leaf.text))
    if current >= 0:
        yield covered


class Recent:
    """Which families were met with what, for the keys that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._families: OrderedDict[Hashable, list[int]] = OrderedDict()
        self.forgotten = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._families

    def of(self, key: Hashable) -> Sequence[int]:
        """The families that were met with a key, the latest one last."""
        return self._families.get(key, ())

    def note(self, key: Hashable, family: int) -> None:
        """A family was met with a key."""
        families = self._families.setdefault(key, [])
        self._families.move_to_end(key)
        if family not in families:
            families.append(family)
            del families[:-_MOST_FAMILIES]
        if len(self._families) > self._most:
            self._families.popitem(last=False)
            self.forgotten += 1


class Families:
    """Numbers the families of requests as they come. What was not met for long is forgotten beyond `memory_bytes`."""

    def __init__(self, memory_bytes: int) -> None:
        most = max(1_000, memory_bytes // _BYTES_EACH)
        # Each request adds a head or a turn of its own; they must not push out what families are alike by.
        self._pieces, self._exact, self._turns = (Recent(most // 3) for _ in range(3))
        self.count = 0
        self._taken = 0

    @property
    def forgotten(self) -> int:
        """Pieces of texts that are known no more."""
        return self._pieces.forgotten

    def of(self, leaves: Sequence[Leaf], endpoint: Endpoint, application: str | None) -> int:
        """The number of a request's family, a new one where it is like none."""
        request = Signature(leaves, hash((endpoint, application)))
        known = self._exact.of(request.exact) if request.exact is not None else ()
        family = known[-1] if known else self._known(request)
        if family is None:
            family = self.count
            self.count += 1
            self._remember(request, family)
        elif not known or self._taken % _REMEMBERED_EACH == 0:
            self._remember(request, family)
        self._taken += 1
        if request.exact is not None:
            self._exact.note(request.exact, family)
        if request.turns:
            self._turns.note(request.turns[-1], family)
        return family

    def _known(self, request: Signature) -> int | None:
        """By the turn that it goes on from, else by the texts that it shares."""
        for turn in reversed(request.turns[:-1]):
            before = self._turns.of(turn)
            if before:
                return before[-1]
        found = self._most_alike(request.sketch)
        if found is None and request.has_long_head:
            found = self._most_alike(request.wide_sketch)
        return found

    def _most_alike(self, sketch: Sequence[int]) -> int | None:
        shared = Counter(family for piece in sketch for family in self._pieces.of(piece))
        best = max(shared, key=lambda family: (shared[family], family), default=None)
        return best if best is not None and shared[best] >= max(1.0, _ALIKE * len(sketch)) else None

    def _remember(self, request: Signature, family: int) -> None:
        for piece in (*request.wide_sketch, *request.sketch):
            self._pieces.note(piece, family)
