"""Requests of one family, made by hand: a shared text with something in front, behind or within it."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from warmroute.doctor import DoctorOptions, Finding, Kind, Logged, Report, diagnose

_WORDS = (
    *("order", "refund", "invoice", "travel", "garden", "winter", "summer", "paper"),
    *("engine", "route", "answer", "customer", "policy", "budget", "harbour"),
)
MANY = 10


def prose(words: int, seed: object) -> str:
    """Sentences of some words, others for each seed."""
    rng = Random(repr(seed))
    return " ".join(" ".join(rng.choices(_WORDS, k=9)).capitalize() + "." for _ in range(max(1, words // 9)))


RULES = prose(400, "rules")


def question(number: int) -> str:
    """What nobody else asks."""
    return prose(27, number)


def chat(system: str, user: str, /, **fields: Any) -> Logged:
    """A chat of a system prompt and a question."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return Logged({"model": "m", "messages": messages, **fields})


def asked(system: Callable[[int], str], many: int = MANY) -> list[Logged]:
    """Questions behind a system prompt that depends on the request's number."""
    return [chat(system(number), question(number)) for number in range(many)]


def conversation(turns: int, seed: object = 0) -> list[dict[str, Any]]:
    """A user's questions and the answers to all but the last one."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": prose(27, (seed, turn))})
        messages.append({"role": "assistant", "content": prose(54, (seed, turn, "answer"))})
    return [*messages, {"role": "user", "content": prose(27, (seed, turns))}]


def shuffled(items: Sequence[Any], seed: int) -> list[Any]:
    """The items in another order for each seed."""
    return Random(seed).sample(items, len(items))


def diagnosed(requests: Sequence[Logged]) -> Report:
    """The report, with all texts."""
    return diagnose(requests, DoctorOptions(show_text=True))


def only(requests: Sequence[Logged], kind: Kind, field: str) -> Finding:
    """The one finding, which is of that kind and in that field, and whose fix keeps its word."""
    report = diagnosed(requests)
    assert [(found.kind, found.field) for found in report.findings] == [(kind, field)]
    finding = report.findings[0]
    assert finding.cached_share_after > finding.cached_share_before
    mended = diagnosed([Logged(finding.fix.apply(each.body), each.path) for each in requests])
    assert mended.cached_share >= 0.95 * finding.cached_share_after
    assert mended.findings == []
    return finding
