"""The same things in another order each time: tools, documents, examples, the keys of JSON."""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from bench.doctor_corpus.application import Application, application
from bench.doctor_corpus.asked import Asked, JsonObject, Message
from bench.doctor_corpus.dialects import WITH_TOOLS, Dialect, history_field, message_field, system_field
from bench.doctor_corpus.family import Case, Expected
from bench.doctor_corpus.traffic import either, questions

from warmroute.doctor import Kind

Item = TypeVar("Item")
_FEW, _MANY = 8, 14


def shuffled(rng: Random, items: Sequence[Item]) -> tuple[Item, ...]:
    """Another order of them than the one given."""
    mixed = list(items)
    while len(mixed) > 1 and mixed == list(items):
        rng.shuffle(mixed)
    return tuple(mixed)


def tools_shuffled(rng: Random) -> Case:
    """A set of tools that is walked in no order."""
    app = application(rng, dialects=WITH_TOOLS, tools=(4, 30))
    asked = either(rng, app, rng.randint(_FEW, _MANY))
    return _tools(app, asked, [shuffled(rng, app.tools) for _ in asked])


def tools_by_host(rng: Random) -> Case:
    """Three hosts, each with an order of its own."""
    app = application(rng, dialects=WITH_TOOLS, tools=(6, 30))
    hosts = [shuffled(rng, app.tools) for _ in range(3)]
    asked = questions(rng, app, rng.randint(_FEW, _MANY))
    return _tools(app, asked, [rng.choice(hosts) for _ in asked])


def _tools(app: Application, asked: Sequence[Asked], orders: Sequence[Any]) -> Case:
    sent = [replace(each, tools=order) for each, order in zip(asked, orders, strict=True)]
    return Case(app, sent, asked, (Expected(Kind.TOOL_ORDER, ("tools",)),))


def documents_in_system(rng: Random) -> Case:
    """The same few documents in the system prompt, as a vector store gave them."""
    app = application(rng, system_tokens=(300, 800), tools=(0, 0))
    documents = _documents(rng, app)
    asked = questions(rng, app, rng.randint(_FEW, _MANY))

    def told(each: Asked, order: Sequence[str]) -> Asked:
        return replace(each, system=f"{each.system}\n\n{_numbered(app, order)}")

    sent = [told(each, shuffled(rng, documents)) for each in asked]
    expected = Expected(Kind.DOCUMENT_ORDER, (system_field(app.dialect),))
    return Case(app, sent, [told(each, documents) for each in asked], (expected,))


def documents_in_message(rng: Random) -> Case:
    """The same few documents in front of each question."""
    app = application(rng, system_tokens=(300, 800), tools=(0, 0))
    documents = _documents(rng, app)
    asked = questions(rng, app, rng.randint(_FEW, _MANY))

    def told(each: Asked, order: Sequence[str]) -> Asked:
        message = replace(each.messages[0], text=f"{_numbered(app, order)}\n\n{each.messages[0].text}")
        return replace(each, messages=(message,))

    sent = [told(each, shuffled(rng, documents)) for each in asked]
    expected = Expected(Kind.DOCUMENT_ORDER, (message_field(asked[0], app.dialect),))
    return Case(app, sent, [told(each, documents) for each in asked], (expected,))


def documents_field(rng: Random) -> Case:
    """The chat endpoint's own `documents`."""
    app = application(rng, dialects=(Dialect.CHAT,), system_tokens=(300, 800), tools=(0, 0))
    documents = _documents(rng, app)
    healthy = [replace(each, documents=documents) for each in questions(rng, app, rng.randint(_FEW, _MANY))]
    sent = [replace(each, documents=shuffled(rng, documents)) for each in healthy]
    return Case(app, sent, healthy, (Expected(Kind.DOCUMENT_ORDER, ("documents",)),))


def _documents(rng: Random, app: Application) -> tuple[str, ...]:
    return tuple(app.voice.paragraph(rng, rng.randint(400, 1_400)) for _ in range(rng.randint(4, 7)))


def _numbered(app: Application, documents: Sequence[str]) -> str:
    """Under headings without a number: with one, the order would be told twice."""
    word = app.voice.words["document"]
    return "\n\n".join(f"<{word}>\n{document}\n</{word}>" for document in documents)


def examples_in_system(rng: Random) -> Case:
    """The same examples in the system prompt, drawn anew each time."""
    app = application(rng, system_tokens=(300, 600))
    examples = _examples(rng, app)
    asked = either(rng, app, rng.randint(_FEW, _MANY))

    def told(each: Asked, order: Sequence[tuple[str, str]]) -> Asked:
        return replace(each, system=f"{each.system}\n\n{examples_told(app, order)}")

    sent = [told(each, shuffled(rng, examples)) for each in asked]
    expected = Expected(Kind.EXAMPLE_ORDER, (system_field(app.dialect),))
    return Case(app, sent, [told(each, examples) for each in asked], (expected,))


def examples_as_messages(rng: Random) -> Case:
    """The same examples as messages of both sides in front of the question."""
    app = application(rng, system_tokens=(300, 600), tools=(0, 0))
    examples = _examples(rng, app)
    asked = questions(rng, app, rng.randint(_FEW, _MANY))

    def told(each: Asked, order: Sequence[tuple[str, str]]) -> Asked:
        shown = [
            message
            for question, answer in order
            for message in (Message("user", question), Message("assistant", answer))
        ]
        return replace(each, messages=(*shown, *each.messages))

    sent = [told(each, shuffled(rng, examples)) for each in asked]
    expected = Expected(Kind.EXAMPLE_ORDER, (history_field(app.dialect),))
    return Case(app, sent, [told(each, examples) for each in asked], (expected,))


def _examples(rng: Random, app: Application) -> tuple[tuple[str, str], ...]:
    many = rng.randint(4, 8)
    return tuple((app.voice.question(rng, 2), app.voice.answer(rng)) for _ in range(many))


def examples_told(app: Application, examples: Sequence[tuple[str, str]]) -> str:
    """Examples as text."""
    words = app.voice.words
    return "\n\n".join(
        f"{words['example']}:\n{words['question']}: {question}\n{words['answer']}: {answer}"
        for question, answer in examples
    )


def schema_keys(rng: Random) -> Case:
    """The tools' schemas, written from maps without an order."""
    app = application(rng, dialects=WITH_TOOLS, tools=(4, 20))
    asked = either(rng, app, rng.randint(_FEW, _MANY))

    def mixed(each: Asked) -> Asked:
        return replace(
            each, tools=tuple(replace(tool, parameters=_keys_mixed(rng, tool.parameters)) for tool in each.tools)
        )

    return Case(app, [mixed(each) for each in asked], asked, (Expected(Kind.KEY_ORDER, ("tools",)),))


def settings_keys(rng: Random) -> Case:
    """A block of JSON at the head of the system prompt."""
    app = application(rng, system_tokens=(500, 2_000))
    settings: JsonObject = {
        "firm": app.voice.firm,
        "role": app.voice.role,
        "places": app.voice.places[:3],
        "limits": {"refund": rng.randrange(50, 900), "days": rng.randrange(5, 60), "calls": rng.randrange(3, 20)},
        "contact": rng.choice(app.voice.persons),
        "language": app.voice.language.tag,
    }
    asked = either(rng, app, rng.randint(_FEW, _MANY))

    def told(each: Asked, block: JsonObject) -> Asked:
        written = json.dumps(block, ensure_ascii=False)
        return replace(each, system=f"{app.voice.words['settings']}: {written}\n\n{each.system}")

    sent = [told(each, _keys_mixed(rng, settings)) for each in asked]
    expected = Expected(Kind.KEY_ORDER, (system_field(app.dialect),))
    return Case(app, sent, [told(each, settings) for each in asked], (expected,))


def _keys_mixed(rng: Random, value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _keys_mixed(rng, value[key]) for key in rng.sample(list(value), len(value))}
    return value
