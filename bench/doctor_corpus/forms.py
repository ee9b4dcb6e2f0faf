"""The same text, written in other bytes: white space, ends of lines, forms of Unicode."""

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import application
from bench.doctor_corpus.asked import Asked
from bench.doctor_corpus.dialects import message_field, system_field
from bench.doctor_corpus.family import Case, Expected, Scenario
from bench.doctor_corpus.traffic import questions

from warmroute.doctor import Kind

_FEW, _MANY = 6, 10
Change = Callable[[Random, str], str]


def _trailing_spaces(rng: Random, text: str) -> str:
    """Some lines end in spaces, one of the first among them."""
    lines = text.split("\n")
    chosen = {rng.randrange(min(4, len(lines))), *(at for at in range(len(lines)) if rng.random() < 0.2)}
    return "\n".join(f"{line}{' ' * rng.randint(1, 3)}" if at in chosen else line for at, line in enumerate(lines))


def _blank_lines(rng: Random, text: str) -> str:
    lines = text.split("\n")
    return "".join(f"{line}\n{chr(10) * rng.randint(0, 2)}" for line in lines[:-1]) + lines[-1]


def _indented(rng: Random, text: str) -> str:
    by = rng.choice(("\t", "  ", "    ", "      "))
    return "\n".join(f"{by}{line}" if line else line for line in text.split("\n"))


def _spaces_between(rng: Random, text: str) -> str:
    """Two spaces after some full stops, a matter of who has typed it."""
    return "".join(f"{mark} " if mark == "." and rng.random() < 0.3 else mark for mark in text)


def _two_clients(change: Change) -> Change:
    """One of two clients makes the change, the other does not."""

    def changed(rng: Random, text: str) -> str:
        return change(Random(0), text) if rng.random() < 0.5 else text

    return changed


def _windows_lines(_: Random, text: str) -> str:
    return text.replace("\n", "\r\n")


def _some_windows_lines(rng: Random, text: str) -> str:
    """A text that was put together from files of both kinds; its first end of a line may be either."""
    lines = text.split("\n")
    return "".join(line + rng.choice(("\n", "\r\n")) for line in lines[:-1]) + lines[-1]


def _decomposed(_: Random, text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _partly_decomposed(rng: Random, text: str) -> str:
    """Lines from a source that composes, and from one that does not."""
    lines = text.split("\n")
    return "\n".join(unicodedata.normalize(rng.choice(("NFC", "NFD")), line) for line in lines)


def in_system(kind: Kind, change: Change, languages: tuple[str, ...]) -> Scenario:
    """The system prompt is written differently."""

    def case(rng: Random) -> Case:
        app = application(rng, languages=languages, system_tokens=(800, 3_000), tools=(0, 0))
        asked = questions(rng, app, rng.randint(_FEW, _MANY))
        sent = _unlike(rng, [replace(each, system=change(rng, each.system)) for each in asked], asked, change)
        return Case(app, sent, asked, (Expected(kind, (system_field(app.dialect),)),))

    return case


def in_document(kind: Kind, change: Change, languages: tuple[str, ...]) -> Scenario:
    """A document in front of each question is written differently."""

    def case(rng: Random) -> Case:
        app = application(rng, languages=languages, system_tokens=(300, 400), tools=(0, 0))
        document = "\n".join(app.voice.paragraph(rng, 400) for _ in range(rng.randint(8, 16)))

        def told(each: Asked, text: str) -> Asked:
            return replace(each, messages=(replace(each.messages[0], text=f"{text}\n\n{each.messages[0].text}"),))

        asked = questions(rng, app, rng.randint(_FEW, _MANY))
        sent = [told(each, change(rng, document)) for each in asked]
        healthy = [told(each, document) for each in asked]
        return Case(app, sent, healthy, (Expected(kind, (message_field(asked[0], app.dialect),)),))

    return case


def _unlike(rng: Random, sent: list[Asked], asked: list[Asked], change: Change) -> list[Asked]:
    """Chance may have left all alike; then the first one is changed for certain."""
    while len({each.system for each in sent}) < 2:
        sent[0] = replace(asked[0], system=change(rng, asked[0].system))
    return sent


_ANY = ("english", "german", "french", "spanish", "russian", "chinese", "japanese", "arabic", "hindi")
_SPACED = ("english", "german", "french", "spanish", "russian")
_COMPOSED = ("german", "french", "spanish", "russian", "japanese", "arabic")
"""Languages with letters that Unicode writes in two ways."""

WHITE_SPACE: tuple[Scenario, ...] = (
    in_system(Kind.WHITE_SPACE, _trailing_spaces, _ANY),
    in_system(Kind.WHITE_SPACE, _blank_lines, _ANY),
    in_system(Kind.WHITE_SPACE, _indented, _ANY),
    in_system(Kind.WHITE_SPACE, _spaces_between, _SPACED),
    in_system(Kind.WHITE_SPACE, _two_clients(_indented), _ANY),
    in_document(Kind.WHITE_SPACE, _trailing_spaces, _ANY),
)
LINE_ENDINGS: tuple[Scenario, ...] = (
    in_system(Kind.LINE_ENDINGS, _two_clients(_windows_lines), _ANY),
    in_system(Kind.LINE_ENDINGS, _some_windows_lines, _ANY),
    in_document(Kind.LINE_ENDINGS, _some_windows_lines, _ANY),
)
UNICODE_FORM: tuple[Scenario, ...] = (
    in_system(Kind.UNICODE_FORM, _two_clients(_decomposed), _COMPOSED),
    in_system(Kind.UNICODE_FORM, _partly_decomposed, _COMPOSED),
    in_document(Kind.UNICODE_FORM, _partly_decomposed, _COMPOSED),
)
