"""What keeps equal prompts apart in an engine's cache: another model, another adapter, another salt."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.kind import Kind
from warmroute.doctor.prompt_blocks import ADAPTER_FIELDS
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.openai_api import JsonObject

_SALT = "cache_salt"
# A name that was there before comes back: two applications, or a change for good, make one change only.
_CHANGES = 2
# Of the requests: where each salt is used again and again, it keeps tenants apart on purpose.
_SALTS_PER_REQUEST = 0.5
_FEWEST_SALTS = 3


@dataclass(frozen=True, slots=True)
class Pinned:
    """A field that has one value in all bodies that have the field; None takes it out."""

    name: str
    value: Any

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with it."""
        if self.name not in body or body[self.name] == self.value:
            return dict(body)
        rest = {name: value for name, value in body.items() if name != self.name}
        return rest if self.value is None else {**body, self.name: self.value}


def _detect(pair: Pair) -> Sequence[Clue]:
    for name in ("model", *ADAPTER_FIELDS, _SALT):
        left, right = pair.left.body.get(name), pair.right.body.get(name)
        if left != right and all(isinstance(each, str | None) for each in (left, right)):
            return [Clue(_kind(name, left, right), (name,), _parting(left, right), left or "", right or "")]
    return []


def _parting(left: str | None, right: str | None) -> int:
    pairs = zip(left or "", right or "", strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left or ""), len(right or "")))


def _kind(name: str, left: str | None, right: str | None) -> Kind:
    if name == _SALT:
        return Kind.SALT
    if name in ADAPTER_FIELDS or _same_base(left or "", right or ""):
        return Kind.ADAPTER
    return Kind.MODEL


def _same_base(left: str, right: str) -> bool:
    """SGLang names an adapter behind a colon; elsewhere an adapter is a model whose name says what it is."""
    if "lora" in (left + right).lower() or "adapter" in (left + right).lower():
        return True
    return left.partition(":")[0] == right.partition(":")[0] and ":" in left + right


def _judge(suspect: Suspect, cases: Sequence[Case]) -> Verdict | None:
    name = str(suspect.path[0])
    values = [case.body.get(name) for case in cases]
    if suspect.kind is Kind.SALT:
        return _judged_salt(suspect, cases, values)
    if not suspect.shows_same_conversation and sum(a != b for a, b in pairwise(values)) < _CHANGES:
        return None
    usual = max((value for value in values if isinstance(value, str)), key=values.count)
    what = "adapter" if suspect.kind is Kind.ADAPTER else "model"
    return Verdict(suspect.kind, Pinned(name, usual), f"send requests that share a prompt to one {what} (`{name}`)")


def _judged_salt(suspect: Suspect, cases: Sequence[Case], values: Sequence[Any]) -> Verdict | None:
    """A salt of each tenant is meant so; one that changes under one conversation or owner, or each time, is not."""
    by_owner: dict[Hashable, set[Any]] = {}
    for case, value in zip(cases, values, strict=True):
        if case.user or case.session:
            by_owner.setdefault(case.user or case.session, set()).add(value)
    changes = suspect.shows_same_conversation or any(len(salts) > 1 for salts in by_owner.values())
    distinct = len(set(values))
    if not changes and (distinct < _FEWEST_SALTS or distinct < _SALTS_PER_REQUEST * len(values)):
        return None
    return Verdict(
        Kind.SALT, Pinned(_SALT, None), "give `cache_salt` one value for each tenant, or none, not one for each request"
    )


GROUP = KindGroup(_detect, _judge)
