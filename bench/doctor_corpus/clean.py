"""Traffic with nothing wrong in it: what differs comes last, and what was said stays as it was."""

from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import application
from bench.doctor_corpus.asked import Asked, Message
from bench.doctor_corpus.dialects import WITH_TOOLS
from bench.doctor_corpus.family import Case, Scenario
from bench.doctor_corpus.traffic import agent_runs, begin_s, conversations, first, questions

_FEWEST, _MOST = 30, 60
"""Requests of a family."""


def many_questions(rng: Random) -> Case:
    """Many people ask one thing each."""
    app = application(rng)
    asked = questions(rng, app, rng.randint(_FEWEST, _MOST), sentences=8)
    return Case(app, asked, asked)


def growing_conversations(rng: Random) -> Case:
    """Conversations side by side, some long."""
    app = application(rng)
    turns = rng.randint(3, 20)
    asked = conversations(rng, app, max(2, rng.randint(_FEWEST, _MOST) // turns), turns)
    return Case(app, asked, asked)


def agents_at_work(rng: Random) -> Case:
    """Conversations that grow by calls of tools and their results."""
    app = application(rng, dialects=WITH_TOOLS, tools=(2, 30))
    steps = rng.randint(3, 10)
    asked = agent_runs(rng, app, max(3, rng.randint(_FEWEST, _MOST) // steps), steps)
    return Case(app, asked, asked)


def retrieval(rng: Random) -> Case:
    """Each question comes with documents of its own."""
    app = application(rng, tools=(0, 0))
    heading = app.voice.words["document"]

    def told(each: Asked) -> Asked:
        found = [app.voice.paragraph(rng, rng.randint(300, 900)) for _ in range(3)]
        text = "\n\n".join(f"{heading} {at}:\n{document}" for at, document in enumerate(found, 1))
        return replace(each, messages=(replace(each.last, text=f"{text}\n\n{each.last.text}"),))

    asked = [told(each) for each in questions(rng, app, rng.randint(_FEWEST, _MOST))]
    return Case(app, asked, asked)


def unlike_tasks(rng: Random) -> Case:
    """A batch of texts to work on, one after the other, behind a short instruction."""
    app = application(rng, system_tokens=(300, 500), tools=(0, 0))
    at_s, asked = begin_s(rng), list[Asked]()
    for _ in range(rng.randint(_FEWEST, _MOST)):
        asked.append(first(rng, app, at_s, Message("user", app.voice.paragraph(rng, rng.randint(1_500, 6_000)))))
        at_s += rng.uniform(1, 20)
    return Case(app, asked, asked)


CLEAN: tuple[Scenario, ...] = (
    many_questions,
    growing_conversations,
    agents_at_work,
    retrieval,
    unlike_tasks,
)
