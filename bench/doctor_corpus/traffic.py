"""What people and agents ask of an application, with nothing wrong in it."""

from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import Application
from bench.doctor_corpus.asked import Asked, Call, Message

EPOCH_S = 1_772_409_600
"""2026-03-02, a Monday, 00:00 UTC: the first day of the log."""
_DAY_S = 86_400.0


def begin_s(rng: Random) -> float:
    """A moment at which a family's requests begin to come."""
    return EPOCH_S + rng.uniform(0, _DAY_S)


def name(rng: Random, what: str) -> str:
    """A name as clients make them, of a session for instance."""
    return f"{what}-{rng.getrandbits(40):010x}"


def questions(rng: Random, app: Application, count: int, *, gap_s: float = 400.0, sentences: int = 4) -> list[Asked]:
    """Different people, each with one question of some sentences."""
    at_s, asked = begin_s(rng), list[Asked]()
    for _ in range(count):
        question = app.voice.question(rng, rng.randint(1, sentences))
        asked.append(first(rng, app, at_s, Message("user", question)))
        at_s += gap_s * rng.uniform(0.5, 1.5)
    return asked


def first(rng: Random, app: Application, at_s: float, *messages: Message) -> Asked:
    """The first request of somebody."""
    return Asked(
        at_s,
        app.model,
        app.system,
        messages,
        app.tools,
        fields=app.fields,
        session=name(rng, "session"),
        user=name(rng, "user"),
    )


def conversations(
    rng: Random, app: Application, sessions: int, turns: int, *, reasoning: bool = False, gap_s: float = 900.0
) -> list[Asked]:
    """Conversations that grow, some at the same time. reasoning: answers come with their thoughts, which are kept."""
    asked, start_s = list[Asked](), begin_s(rng)
    for _ in range(sessions):
        asked += _conversation(rng, app, start_s, turns, reasoning)
        start_s += gap_s * rng.uniform(0.2, 1.5)
    return sorted(asked, key=lambda each: each.at_s)


def _conversation(rng: Random, app: Application, start_s: float, turns: int, reasoning: bool) -> list[Asked]:
    opened = first(rng, app, start_s, Message("user", app.voice.question(rng, rng.randint(1, 4))))
    asked = [opened]
    for _ in range(turns - 1):
        thought = thoughts(rng, app) if reasoning else None
        answered = Message("assistant", app.voice.answer(rng), reasoning=thought)
        follow_up = Message("user", app.voice.question(rng, rng.randint(1, 3)))
        asked.append(later(asked[-1], rng.uniform(20, 120), answered, follow_up))
    return asked


def thoughts(rng: Random, app: Application) -> str:
    """What a model thinks before it answers."""
    return app.voice.paragraph(rng, rng.randint(400, 1_600))


def later(before: Asked, wait_s: float, *messages: Message) -> Asked:
    """The request that goes on from one before it."""
    return replace(before, at_s=before.at_s + wait_s, messages=(*before.messages, *messages))


def agent_runs(rng: Random, app: Application, runs: int, steps: int, *, gap_s: float = 600.0) -> list[Asked]:
    """Tasks in which the model calls a tool, sees the result and goes on."""
    asked, start_s = list[Asked](), begin_s(rng)
    for _ in range(runs):
        step = first(rng, app, start_s, Message("user", app.voice.question(rng, 3)))
        asked.append(step)
        for _ in range(steps - 1):
            step = later(step, rng.uniform(3, 20), *called(rng, app))
            asked.append(step)
        start_s += gap_s * rng.uniform(0.2, 1.5)
    return sorted(asked, key=lambda each: each.at_s)


def called(rng: Random, app: Application) -> tuple[Message, Message]:
    """A call and its result."""
    tool, call_id = rng.choice(app.tools), f"call_{rng.getrandbits(64):016x}"
    arguments = {argument: rng.randrange(1, 9_999) for argument in tool.parameters["required"]}
    call = Call(call_id, tool.name, arguments)
    found = app.voice.paragraph(rng, rng.randint(150, 900))
    return (
        Message("assistant", app.voice.sentence(rng, "answers"), calls=(call,)),
        Message("tool", found, call_id=call_id),
    )


def either(rng: Random, app: Application, count: int, sessions: int = 2) -> list[Asked]:
    """About `count` requests: questions of many, or conversations of a few, but of so many at least."""
    if rng.random() < 0.6:
        return questions(rng, app, count)
    turns = rng.randint(2, 4)
    return conversations(rng, app, max(sessions, count // turns), turns)
