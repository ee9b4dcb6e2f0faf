"""Which requests belong together: those that share a long text, wherever it stands, or go on from one another."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from warmroute.doctor.chunks import weighed
from warmroute.doctor.leaves import Leaf, Zone
from warmroute.openai_api import Endpoint

# Of the tools and the system prompt; of these and the first message, where they are short.
_SAME_HEAD, _SAME_BEGINNING = 0.5, 0.5
_LONG_HEAD = 256
_MOST_PIECES = 256
_IN_HEAD = (Zone.TOOLS, Zone.DOCUMENTS, Zone.SYSTEM)
# Families that share a piece: a sentence that many applications have tells little.
_MOST_FAMILIES = 8
# Requests after which the pieces of one that was known by them are remembered anew: what is used is not forgotten.
_REMEMBERED_EACH = 8
# Of memory for a piece or a turn that is remembered.
_BYTES_EACH = 300


@dataclass(frozen=True)
class Signature:
    """What a request is known by: its texts; and what keeps families apart: the endpoint, the application."""

    leaves: Sequence[Leaf]
    kin: Hashable

    @cached_property
    def _head(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.zone in _IN_HEAD]

    @cached_property
    def exact(self) -> Hashable:
        """Its tools and system prompt as they are; None where it has none."""
        return hash(tuple((leaf.zone, leaf.text) for leaf in self._head)) if self._head else None

    @cached_property
    def head(self) -> dict[int, int]:
        """Pieces of these."""
        return weighed(self._head)

    @cached_property
    def has_long_head(self) -> bool:
        """Whether these tell enough."""
        return sum(len(leaf.text) for leaf in self._head) >= _LONG_HEAD

    @cached_property
    def beginning(self) -> dict[int, int]:
        """Pieces of these and of the first message; of all messages where these are short."""
        others = [leaf for leaf in self.leaves if leaf.zone not in _IN_HEAD]
        if self.has_long_head:
            others = [leaf for leaf in others if leaf.message == others[0].message]
        return _first(self.head | weighed(others))

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """A hash for each message that is not the system's, covering all before it."""
        return tuple(_turns(self.leaves))


def _first(pieces: dict[int, int]) -> dict[int, int]:
    return dict(list(pieces.items())[:_MOST_PIECES]) if len(pieces) > _MOST_PIECES else pieces


def _turns(leaves: Sequence[Leaf]) -> Iterator[int]:
    covered, current = 0, -1
    for leaf in leaves:
        if leaf.message < 0 or leaf.zone is Zone.SYSTEM:
            continue
        if leaf.message != current and current >= 0:
            yield covered
        current = leaf.message
        covered = hash((covered, leaf.zone, leaf.text))
    if current >= 0:
        yield covered


class Families:
    """Numbers the families of requests as they come. What was not met for long is forgotten beyond `memory_bytes`."""

    def __init__(self, memory_bytes: int) -> None:
        self._most = max(1_000, memory_bytes // _BYTES_EACH)
        self._by_piece: OrderedDict[Hashable, list[int]] = OrderedDict()
        self.count = 0
        self._taken = 0
        self.forgotten = 0

    def of(self, leaves: Sequence[Leaf], endpoint: Endpoint, application: str | None) -> int:
        """The number of a request's family, a new one where it is like none."""
        request = Signature(leaves, (endpoint, application))
        exact = request.exact and self._by_piece.get((request.kin, "exact", request.exact))
        if exact:
            # As most requests are: what it is known by is known.
            self._remember_turns(request, exact[-1])
            return exact[-1]
        family = self._known(request)
        is_new = family is None
        if family is None:
            family = self.count
            self.count += 1
        self._remember(request, family, is_new)
        return family

    def _known(self, request: Signature) -> int | None:
        for turn in reversed(request.turns[:-1]):
            before = self._by_piece.get((request.kin, "turns", turn))
            if before:
                return before[-1]
        pieces, least = request.beginning, _SAME_BEGINNING
        if request.has_long_head:
            pieces, least = request.head, _SAME_HEAD
        found = self._most_alike(request.kin, pieces, least)
        return self._most_alike(request.kin, request.beginning, _SAME_BEGINNING) if found is None else found

    def _most_alike(self, kin: Hashable, pieces: dict[int, int], least: float) -> int | None:
        shared: dict[int, int] = {}
        salt = hash(kin)
        for piece, weight in pieces.items():
            for family in self._by_piece.get(piece ^ salt, ()):
                shared[family] = shared.get(family, 0) + weight
        best = max(shared, key=lambda family: (shared[family], family), default=None)
        return best if best is not None and shared[best] >= least * sum(pieces.values()) else None

    def _remember(self, request: Signature, family: int, is_new: bool) -> None:
        if request.exact is not None:
            self._note((request.kin, "exact", request.exact), family)
        self._taken += 1
        salt, anew = hash(request.kin), is_new or self._taken % _REMEMBERED_EACH == 0
        for piece in request.beginning:
            if anew or piece ^ salt not in self._by_piece:
                self._note(piece ^ salt, family)
        self._remember_turns(request, family)

    def _remember_turns(self, request: Signature, family: int) -> None:
        """That a request went so far: one that goes on from it is found by that, whatever its system prompt is."""
        if request.turns:
            self._note((request.kin, "turns", request.turns[-1]), family)
        while len(self._by_piece) > self._most:
            self._by_piece.popitem(last=False)
            self.forgotten += 1

    def _note(self, key: Hashable, family: int) -> None:
        families = self._by_piece.get(key)
        if families is None:
            self._by_piece[key] = [family]
            return
        self._by_piece.move_to_end(key)
        if family not in families:
            families.append(family)
            del families[:-_MOST_FAMILIES]
