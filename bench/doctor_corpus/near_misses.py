"""Clean traffic that looks like a fault: what changes costs nothing, or cannot be otherwise."""

import base64
from collections.abc import Callable
from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import Application, application
from bench.doctor_corpus.asked import Asked, Message
from bench.doctor_corpus.dialects import WITH_TOOLS, Dialect
from bench.doctor_corpus.family import Case, Scenario
from bench.doctor_corpus.language import LANGUAGES, language
from bench.doctor_corpus.orders import examples_told
from bench.doctor_corpus.traffic import (
    EPOCH_S,
    agent_runs,
    begin_s,
    called,
    conversations,
    first,
    later,
    questions,
)
from bench.doctor_corpus.voice import Voice
from bench.doctor_corpus.volatile import STYLES, hexadecimal, person, signed_url, ulid, uuid

_FEW, _MANY = 8, 14
_VOLATILE = tuple(STYLES)


def _clean(app: Application, asked: list[Asked]) -> Case:
    return Case(app, asked, asked)


def _questions(rng: Random, app: Application) -> list[Asked]:
    return questions(rng, app, rng.randint(_FEW, _MANY))


def _at_end(asked: Asked, text: str) -> Asked:
    last = asked.last
    return replace(asked, messages=(*asked.messages[:-1], replace(last, text=f"{last.text} {text}")))


def ids_in_questions(rng: Random) -> Case:
    """People ask about an order, a trace or a commit, by its id."""
    app = application(rng)
    made: tuple[Callable[[Asked], str], ...] = (
        lambda _: uuid(rng),
        lambda each: ulid(rng, each.at_s),
        lambda _: hexadecimal(rng, 32),
        lambda _: hexadecimal(rng, 40),
    )
    return _clean(app, [_at_end(each, f"({rng.choice(made)(each)})") for each in _questions(rng, app)])


def ids_before_questions(rng: Random) -> Case:
    """The user's message begins with what changes, and nothing that is shared comes after it."""
    app = application(rng)
    written = STYLES[rng.choice(_VOLATILE)](rng, app)
    asked = _questions(rng, app)
    changed = [
        replace(each, messages=(replace(each.last, text=f"{written(rng, each)}\n{each.last.text}"),)) for each in asked
    ]
    return _clean(app, changed)


def dates_in_shared_document(rng: Random) -> Case:
    """A document full of dates, which is the same for all."""
    app = application(rng, system_tokens=(300, 600), tools=(0, 0))
    days = [app.voice.language.written(app.voice.language.days[0], EPOCH_S - 86_400 * at) for at in range(12)]
    document = "\n".join(f"{day}: {app.voice.sentence(rng, 'facts')}" for day in days)
    asked = [
        replace(each, messages=(replace(each.last, text=f"{document}\n\n{each.last.text}"),))
        for each in _questions(rng, app)
    ]
    return _clean(app, asked)


def versions_like_dates(rng: Random) -> Case:
    """Versions by the calendar: one in the instructions, the same for all, and another in each question."""
    app = application(rng)
    build = f"Build 2026.03.{rng.randrange(10, 28)}"
    asked = [replace(each, system=f"{build}\n\n{each.system}") for each in _questions(rng, app)]
    return _clean(app, [_at_end(each, f"(2025.{rng.randrange(1, 13):02}.{rng.randrange(1, 28):02})") for each in asked])


def changes_behind_system(rng: Random) -> Case:
    """A date, an id, a counter or the user's data ends the system prompt, and the question follows."""
    app = application(rng)
    written = STYLES[rng.choice(_VOLATILE)](rng, app)
    asked = [replace(each, system=f"{each.system}\n\n{written(rng, each)}") for each in _questions(rng, app)]
    return _clean(app, asked)


def times_kept_in_history(rng: Random) -> Case:
    """Each message of a conversation bears the time at which it was written, then and later."""
    app = application(rng)
    form, asked = app.voice.language.moments[0], conversations(rng, app, rng.randint(2, 3), rng.randint(4, 8))
    stamps = {(each.session, len(each.messages)): each.at_s for each in asked}

    def stamped(each: Asked) -> Asked:
        messages = tuple(
            replace(message, text=f"[{stamp(each, at + 1)}] {message.text}") if message.role == "user" else message
            for at, message in enumerate(each.messages)
        )
        return replace(each, messages=messages)

    def stamp(each: Asked, length: int) -> str:
        return app.voice.language.written(form, stamps[each.session, length])

    return _clean(app, [stamped(each) for each in asked])


def twin_applications(rng: Random) -> Case:
    """Two applications: the system prompt of the one is that of the other with rules of its own from the third on."""
    app = application(rng, system_tokens=(600, 1_500))
    opening = "\n".join(app.system.split("\n")[:4])
    other = replace(app, system=f"{opening}\n{app.voice.rules(rng, len(app.system.encode()))}")
    asked = questions(rng, app, rng.randint(5, 8)) + questions(rng, other, rng.randint(5, 8))
    return _clean(app, sorted(asked, key=lambda each: each.at_s))


def tools_of_each_role(rng: Random) -> Case:
    """Each role of users has the tools that it may use; behind them come the same instructions."""
    app = application(rng, dialects=WITH_TOOLS, tools=(9, 24), system_tokens=(300, 400))
    third = len(app.tools) // 3
    roles = [app.tools[at * third : (at + 1) * third] for at in range(3)]
    asked = [replace(each, tools=rng.choice(roles)) for each in questions(rng, app, rng.randint(24, 36))]
    return _clean(app, asked)


def numbers_like_epochs(rng: Random) -> Case:
    """Telephone numbers of ten digits: the firm's in the instructions, the caller's in the question."""
    app = application(rng)
    firm = f"{rng.randrange(1_500_000_000, 1_799_999_999)}"
    asked = [replace(each, system=f"Tel. {firm}\n\n{each.system}") for each in _questions(rng, app)]
    return _clean(app, [_at_end(each, f"Tel. {rng.randrange(1_500_000_000, 1_799_999_999)}") for each in asked])


def same_attachment(rng: Random) -> Case:
    """A long piece of base64, the same in all requests."""
    app = application(rng, system_tokens=(300, 600))
    attached = base64.b64encode(rng.randbytes(rng.randint(600, 1_500))).decode()
    return _clean(
        app, [replace(each, system=f"{each.system}\n\nlogo.png: {attached}") for each in _questions(rng, app)]
    )


def many_languages(rng: Random) -> Case:
    """The same instructions, and users who write in languages of their own."""
    app = application(rng)
    voices = [Voice(language(name), rng) for name in LANGUAGES]
    asked = [
        replace(each, messages=(Message("user", rng.choice(voices).question(rng, 2)),)) for each in _questions(rng, app)
    ]
    return _clean(app, asked)


def retries(rng: Random) -> Case:
    """Requests that are sent again as they were."""
    app = application(rng)
    asked = list[Asked]()
    for each in _questions(rng, app):
        asked += [replace(each, at_s=each.at_s + 2.0 * again) for again in range(rng.randint(1, 3))]
    return _clean(app, asked)


def sub_agents(rng: Random) -> Case:
    """One agent starts others at the same time, each with instructions and tools of its own, in one session."""
    app = application(rng, dialects=WITH_TOOLS, tools=(3, 12))
    at_s, asked = begin_s(rng), list[Asked]()
    session = first(rng, app, at_s, Message("user", "")).session
    for _ in range(3):
        other = application(rng, dialects=(app.dialect,), tools=(3, 12))
        own = replace(app, system=other.system, tools=other.tools)
        for run in agent_runs(rng, own, 1, rng.randint(3, 5)):
            asked.append(replace(run, session=session, at_s=at_s + 10 * len(run.messages)))
    return _clean(app, sorted(asked, key=lambda each: each.at_s))


def chosen_examples(rng: Random) -> Case:
    """Few-shot examples that were looked up for each question, behind the instructions."""
    app = application(rng, tools=(0, 0))
    stock = [(app.voice.question(rng, 2), app.voice.answer(rng)) for _ in range(60)]

    def told(each: Asked) -> Asked:
        return replace(each, system=f"{each.system}\n\n{examples_told(app, rng.sample(stock, 4))}")

    return _clean(app, [told(each) for each in _questions(rng, app)])


def compacted_once(rng: Random) -> Case:
    """A long conversation is summed up once, and goes on from the summary."""
    app = application(rng, system_tokens=(300, 900), tools=(0, 0))
    asked = list[Asked]()
    for grown in [conversations(rng, app, 1, rng.randint(8, 12)) for _ in range(2)]:
        told = " ".join(app.voice.answer(rng) for _ in range(3))
        summary = Message("user", f"{app.voice.words['summary']}: {told}")
        turn = replace(grown[-1], at_s=grown[-1].at_s + 60, messages=(summary,))
        asked += [*grown, turn]
        for _ in range(4):
            turn = later(
                turn, 40, Message("assistant", app.voice.answer(rng)), Message("user", app.voice.question(rng))
            )
            asked.append(turn)
    return _clean(app, sorted(asked, key=lambda each: each.at_s))


def edited_questions(rng: Random) -> Case:
    """People go back, write their last question anew, and go on from there."""
    app = application(rng)
    asked = list[Asked]()
    for each in conversations(rng, app, rng.randint(2, 3), rng.randint(3, 6)):
        edited = replace(each.last, text=app.voice.question(rng, 2))
        asked += [each, replace(each, at_s=each.at_s + 15, messages=(*each.messages[:-1], edited))]
    return _clean(app, sorted(asked, key=lambda each: each.at_s))


def ids_beside_prompt(rng: Random) -> Case:
    """Fields that are not in the prompt differ in every request."""
    app = application(rng)
    asked = [
        replace(
            each,
            fields={
                **each.fields,
                "user": person(rng, app),
                "seed": rng.randrange(2**31),
                "metadata": {"request_id": uuid(rng), "sent_at": f"{each.at_s:.3f}"},
            },
        )
        for each in _questions(rng, app)
    ]
    return _clean(app, asked)


def thoughts_kept(rng: Random) -> Case:
    """Thoughts are sent back in all later turns."""
    app = application(rng, dialects=(Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES))
    return _clean(app, conversations(rng, app, rng.randint(2, 3), rng.randint(4, 7), reasoning=True))


def stamped_tool_results(rng: Random) -> Case:
    """Results of tools with the time and an id in front, which stay in the history."""
    app = application(rng, dialects=WITH_TOOLS, tools=(2, 12))
    asked = list[Asked]()
    for _ in range(rng.randint(2, 3)):
        step = first(rng, app, begin_s(rng), Message("user", app.voice.question(rng, 3)))
        asked.append(step)
        for _ in range(rng.randint(4, 6)):
            call, result = called(rng, app)
            head = f'{{"at": {step.at_s:.3f}, "request_id": "{uuid(rng)}"}}\n'
            step = later(step, rng.uniform(3, 20), call, replace(result, text=head + result.text))
            asked.append(step)
    return _clean(app, sorted(asked, key=lambda each: each.at_s))


def one_day_only(rng: Random) -> Case:
    """The day at the head of the instructions, in traffic of one hour."""
    app = application(rng)
    day = app.voice.language.written(app.voice.language.days[0], EPOCH_S + 3 * 86_400)
    head = f"{app.voice.words['today']} {day}."
    return _clean(app, [replace(each, system=f"{head}\n\n{each.system}") for each in _questions(rng, app)])


def instructions_edited_once(rng: Random) -> Case:
    """The last rule of the instructions is written anew while the log goes on."""
    app = application(rng, system_tokens=(800, 3_000))
    asked = questions(rng, app, rng.randint(14, 20))
    lines = app.system.split("\n")
    edited = "\n".join([*lines[:-1], f"{len(lines)}. {app.voice.rule(rng)}"])
    half = len(asked) // 2
    return _clean(app, asked[:half] + [replace(each, system=edited) for each in asked[half:]])


def salted_applications(rng: Random) -> Case:
    """Every request of an application has its salt."""
    app = application(rng)
    salted = {"cache_salt": hexadecimal(rng, 32)}
    return _clean(app, [replace(each, fields={**each.fields, **salted}) for each in _questions(rng, app)])


def signed_url_at_end(rng: Random) -> Case:
    """The user's own file, at a signed address, in the question."""
    app = application(rng)
    url = signed_url(rng, app)
    return _clean(app, [_at_end(each, url(rng, each)) for each in _questions(rng, app)])


def brief_prompt_long_texts(rng: Random) -> Case:
    """Instructions of a few words, shorter than a block, in front of long texts: there is nothing to share."""
    app = application(rng, system_tokens=(300, 301), tools=(0, 0))
    app = replace(app, system=app.voice.role)
    asked = [
        replace(each, messages=(Message("user", app.voice.paragraph(rng, rng.randint(6_000, 12_000))),))
        for each in _questions(rng, app)
    ]
    return _clean(app, asked)


NEAR_MISSES: tuple[Scenario, ...] = (
    ids_in_questions,
    ids_before_questions,
    dates_in_shared_document,
    versions_like_dates,
    changes_behind_system,
    times_kept_in_history,
    twin_applications,
    tools_of_each_role,
    numbers_like_epochs,
    same_attachment,
    many_languages,
    retries,
    sub_agents,
    chosen_examples,
    compacted_once,
    edited_questions,
    ids_beside_prompt,
    thoughts_kept,
    stamped_tool_results,
    one_day_only,
    instructions_edited_once,
    salted_applications,
    signed_url_at_end,
    brief_prompt_long_texts,
)
