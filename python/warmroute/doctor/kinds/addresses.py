"""Addresses of one thing that are another one in each request: signed for a while, or of one of several hosts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from warmroute.doctor.case import Case, Pair
from warmroute.doctor.ending import with_text_at_end
from warmroute.doctor.kind import Kind
from warmroute.doctor.kinds.identifiers import URL
from warmroute.doctor.leaves import Leaf, field_name, leaves_of, replaced
from warmroute.doctor.suspect import Clue, KindGroup, Suspect, Verdict
from warmroute.doctor.units import common_prefix
from warmroute.openai_api import Endpoint, JsonObject

_HOST = re.compile(r"https?://[^/?#]+")


@dataclass(frozen=True, slots=True)
class StableUrls:
    """Addresses of which several forms were seen in one stable form; where a text had another, that one is at its end.

    stable: the form by what the address names, which is its path without what changes, or the path's last part.
    """

    endpoint: Endpoint
    stable: Mapping[str, str] = field(repr=False)

    def apply(self, body: JsonObject) -> JsonObject:
        """The body with them."""
        changed, told = body, dict[str, None]()
        for leaf in leaves_of(body, self.endpoint):
            text = URL.sub(self._form, leaf.text)
            if text == leaf.text:
                continue
            changed = replaced(changed, leaf.path, text)
            if not _is_media(leaf):
                told |= dict.fromkeys(url for url in URL.findall(leaf.text) if self._named(url) in self.stable)
        return with_text_at_end(changed, self.endpoint, "\n".join(told)) if told else dict(changed)

    def _form(self, found: "re.Match[str]") -> str:
        return self.stable.get(self._named(found.group()), found.group())

    def _named(self, url: str) -> str:
        return next((name for name in names_of(url) if name in self.stable), "")


def names_of(url: str) -> tuple[str, str]:
    """What an address names, as far as it says so: its path on its host, and the last part of that path."""
    bare = re.split(r"[?#]", url, maxsplit=1)[0].rstrip("/")
    return bare, bare.rpartition("/")[2]


def _is_media(leaf: Leaf) -> bool:
    """Whether a text is nothing but an address."""
    return URL.fullmatch(leaf.text.strip()) is not None


def _detect(pair: Pair) -> Sequence[Clue]:
    if pair.parted is None or pair.parted[0].path != pair.parted[1].path:
        return []
    left, right = pair.parted
    at = common_prefix(left.text, right.text)
    a, b = _over(left.text, at), _over(right.text, at)
    if a is None or b is None or a.start() != b.start() or not set(names_of(a.group())) & set(names_of(b.group())):
        return []
    return [Clue(Kind.URL, left.path, at, a.group(), b.group())]


def _over(text: str, at: int) -> "re.Match[str] | None":
    return next((found for found in URL.finditer(text) if found.start() <= at <= found.end()), None)


def _judge(suspect: Suspect, cases: Sequence[Case]) -> Verdict | None:
    stable = _stable_forms(url for case in cases for leaf in case.leaves for url in URL.findall(leaf.text))
    if not stable:
        return None
    fix = StableUrls(cases[0].endpoint, stable)
    where = field_name(suspect.path)
    return Verdict(
        suspect.kind, fix, f"keep the address in `{where}` stable, and put a signed one behind all shared text"
    )


def _stable_forms(urls: Iterable[str]) -> dict[str, str]:
    """For what was named by several addresses the first of them, without what is signed."""
    by_path: dict[str, set[str]] = {}
    by_last: dict[str, list[str]] = {}
    for url in urls:
        bare, last = names_of(url)
        by_path.setdefault(bare, set()).add(url)
        if "." in last and bare not in by_last.setdefault(last, []):
            by_last[last].append(bare)
    forms = {bare: bare for bare, forms_of in by_path.items() if len(forms_of) > 1}
    return forms | {last: bares[0] for last, bares in by_last.items() if len(bares) > 1 and _one_thing(bares)}


def _one_thing(bares: Sequence[str]) -> bool:
    """Whether the addresses differ in the host alone, or in one part of their path."""
    parts = [_HOST.sub("host", bare, count=1).split("/") for bare in bares]
    longest = max(map(len, parts))
    return all(len(each) == longest for each in parts) and all(
        sum(a != b for a, b in zip(parts[0], each, strict=True)) <= 1 for each in parts
    )


GROUP = KindGroup(_detect, _judge)
