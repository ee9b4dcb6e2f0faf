"""Something that changes stands in front of what all requests share: in the instructions, a tool, the first message."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import Application, application
from bench.doctor_corpus.asked import Asked, Message, Tool
from bench.doctor_corpus.dialects import WITH_TOOLS, Dialect, message_field, system_field
from bench.doctor_corpus.family import Case, Expected, Scenario
from bench.doctor_corpus.traffic import conversations, either, first, later, questions
from bench.doctor_corpus.volatile import STYLES, Written, day_alone, signed_url

from warmroute.doctor import Kind

_FEW, _MANY = 8, 14
_DAY_S = 86_400.0


def at_head(kind: Kind) -> Scenario:
    """The first words of the system prompt."""

    def case(rng: Random) -> Case:
        app = application(rng)
        return _case(rng, kind, app, _traffic(rng, kind, app), _before_system)

    return case


def within(kind: Kind) -> Scenario:
    """After the first rules of the system prompt."""

    def case(rng: Random) -> Case:
        app = application(rng, system_tokens=(600, 3_000))
        return _case(rng, kind, app, _traffic(rng, kind, app), _among_rules)

    return case


def in_tool(kind: Kind) -> Scenario:
    """The description of one of the first tools."""

    def case(rng: Random) -> Case:
        app = application(rng, dialects=WITH_TOOLS, tools=(4, 20))
        return _case(rng, kind, app, _traffic(rng, kind, app), _in_second_tool, "tools[1]")

    return case


def before_document(kind: Kind) -> Scenario:
    """The first words of the first message, in front of a document about which everybody asks."""

    def case(rng: Random) -> Case:
        app = application(rng, system_tokens=(300, 500), tools=(0, 0))
        document = app.voice.paragraph(rng, rng.randint(4_000, 12_000))
        asked = questions(rng, app, rng.randint(_FEW, _MANY))
        healthy = [_about(document, each) for each in asked]
        return _case(rng, kind, app, healthy, _before_message, message_field(healthy[0], app.dialect))

    return case


def at_end_of_system(kind: Kind) -> Scenario:
    """The last words of the system prompt, and a new one in each turn: the history behind it is lost."""

    def case(rng: Random) -> Case:
        app = application(rng)
        asked = conversations(rng, app, rng.randint(2, 3), rng.randint(6, 9))
        return _case(rng, kind, app, asked, _after_system)

    return case


def day_at_head(rng: Random) -> Case:
    """The day alone, over two weeks."""
    app = application(rng)
    asked = questions(rng, app, rng.randint(_FEW, _MANY), gap_s=1.2 * _DAY_S)
    return _placed(rng, Kind.DATE_TIME, app, asked, _before_system, day_alone(rng, app))


def image_url(rng: Random) -> Case:
    """The same picture at the start of a conversation, at an address that is signed anew in each turn."""
    app = application(rng, dialects=(Dialect.CHAT,), system_tokens=(300, 600), tools=(0, 0))
    written, plain = signed_url(rng, app), f"https://files.example.org/{rng.randrange(10**6)}.jpg"
    sent, healthy = list[Asked](), list[Asked]()
    for _ in range(rng.randint(2, 3)):
        turn = first(rng, app, questions(rng, app, 1)[0].at_s, Message("user", app.voice.question(rng), image=plain))
        for _ in range(rng.randint(4, 6)):
            healthy.append(turn)
            sent.append(_with_image(turn, written(rng, turn)))
            answer, more = Message("assistant", app.voice.answer(rng)), Message("user", app.voice.question(rng))
            turn = later(turn, rng.uniform(20, 90), answer, more)
    return Case(app, sent, healthy, (Expected(Kind.URL, (message_field(healthy[0], app.dialect),)),))


def _with_image(asked: Asked, url: str) -> Asked:
    return replace(asked, messages=(replace(asked.messages[0], image=url), *asked.messages[1:]))


def _traffic(rng: Random, kind: Kind, app: Application) -> list[Asked]:
    """Users' data stays the same within a session, so that it takes more of these to lose much."""
    return either(rng, app, rng.randint(_FEW, _MANY), sessions=8 if kind is Kind.USER_DATA else 2)


Place = Callable[[Asked, str], Asked]


def _case(
    rng: Random, kind: Kind, app: Application, asked: Sequence[Asked], place: Place, field: str | None = None
) -> Case:
    return _placed(rng, kind, app, asked, place, STYLES[kind](rng, app), field)


def _placed(
    rng: Random,
    kind: Kind,
    app: Application,
    asked: Sequence[Asked],
    place: Place,
    written: Written,
    field: str | None = None,
) -> Case:
    """Each request with its own text at the place; well, it would stand behind the last message."""
    texts = [written(rng, each) for each in asked]
    pairs = list(zip(asked, texts, strict=True))
    expected = Expected(kind, (field or system_field(app.dialect),))
    return Case(app, [place(*pair) for pair in pairs], [_after_all(*pair) for pair in pairs], (expected,))


def _before_system(asked: Asked, text: str) -> Asked:
    return replace(asked, system=f"{text}\n\n{asked.system}")


def _after_system(asked: Asked, text: str) -> Asked:
    return replace(asked, system=f"{asked.system}\n\n{text}")


def _among_rules(asked: Asked, text: str) -> Asked:
    lines = asked.system.split("\n")
    return replace(asked, system="\n".join([*lines[:4], text, *lines[4:]]))


def _in_second_tool(asked: Asked, text: str) -> Asked:
    tool = asked.tools[1]
    changed = Tool(tool.name, f"{tool.description} ({text})", tool.parameters)
    return replace(asked, tools=(asked.tools[0], changed, *asked.tools[2:]))


def _before_message(asked: Asked, text: str) -> Asked:
    opening = asked.messages[0]
    return replace(asked, messages=(replace(opening, text=f"{text}\n{opening.text}"), *asked.messages[1:]))


def _after_all(asked: Asked, text: str) -> Asked:
    last = asked.last
    return replace(asked, messages=(*asked.messages[:-1], replace(last, text=f"{last.text}\n\n{text}")))


def _about(document: str, asked: Asked) -> Asked:
    message = replace(asked.messages[0], text=f"{document}\n\n{asked.messages[0].text}")
    return replace(asked, messages=(message,))


def scenarios(kind: Kind) -> tuple[Scenario, ...]:
    """All places in which a kind may stand."""
    placed = (at_head(kind), within(kind), in_tool(kind), before_document(kind))
    if kind is Kind.USER_DATA:  # it stays the same within a conversation, so behind the system prompt it costs nothing
        return placed
    return (*placed, at_end_of_system(kind))
