"""Prefixes of which no full block is shared, or a good part lies in the last block that is not full."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.kind import Kind
from warmroute.doctor.leaves import Leaf, Path, field_name, replaced, value_at
from warmroute.doctor.suspect import Clue, Suspect, Verdict
from warmroute.doctor.units import common_prefix
from warmroute.openai_api import JsonObject

_FEWEST_REQUESTS = 4
# Of the requests that share the same beginning: conversations that go on share another one each.
_SHARING = 0.75
_SHORTEST_TOKENS = 4
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Padded:
    """A field with more shared text behind its shared beginning, up to the end of a block."""

    path: Path
    beginning: str
    padding: str

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with it."""
        text = value_at(body, self.path)
        if not isinstance(text, str) or not text.startswith(self.beginning):
            return dict(body)
        return replaced(body, self.path, self.beginning + self.padding + text[len(self.beginning) :])  # type: ignore[no-any-return]


def short_prefix(cases: Sequence[Case]) -> tuple[Suspect, Verdict] | None:
    """The place at which nearly all requests part, where that is within a block; None where they part elsewhere."""
    if len(cases) < _FEWEST_REQUESTS:
        return None
    ordered = sorted(cases, key=lambda case: [leaf.text for leaf in case.leaves])
    places = Counter(place for pair in pairwise(ordered) if (place := _parting(*pair)) is not None)
    if not places:
        return None
    (path, beginning), many = places.most_common(1)[0]
    if many < _SHARING * (len(cases) - 1):
        return None
    pairs = [pair for pair in pairwise(ordered) if _parting(*pair) == (path, beginning)]
    counting = cases[0].counting
    # What some of them ask may begin alike as well.
    shares = [counting.shared_tokens(left.body, right.body, left.endpoint) for left, right in pairs]
    shared = min(shares)
    left, right = pairs[shares.index(shared)]
    missing = -shared % counting.block_tokens
    if shared < _SHORTEST_TOKENS or not missing:
        return None
    clue = Clue(Kind.SHORT_PREFIX, path, len(beginning), left.leaves[-1].text[:_SHOWN], right.leaves[-1].text[:_SHOWN])
    suspect = Suspect(Kind.SHORT_PREFIX, path, [(Pair(left, right), clue)])
    advice = (
        f"the shared beginning ends after {shared} tokens, within a block of {counting.block_tokens}: put {missing} "
        f"more tokens that all share behind `{field_name(path)}`, or let the engine use smaller blocks"
    )
    return suspect, Verdict(Kind.SHORT_PREFIX, Padded(path, beginning, counting.padding(missing)), advice)


def _parting(left: Case, right: Case) -> tuple[Path, str] | None:
    """The last field that both share at least in part, and how it begins in both."""
    before: Leaf | None = None
    for a, b in zip(left.leaves, right.leaves, strict=False):
        if a.path != b.path:
            break
        if a.text != b.text:
            shared = a.text[: common_prefix(a.text, b.text)]
            if shared and before is None:
                return a.path, shared
            break
        before = a
    else:
        return None
    return None if before is None else (before.path, before.text)
