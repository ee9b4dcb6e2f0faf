"""Conversations whose beginning does not stay what it was."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import eq, le
from random import Random

from bench.doctor_corpus.application import Application, application
from bench.doctor_corpus.asked import Asked, Message
from bench.doctor_corpus.dialects import Dialect, history_field, message_field, system_field
from bench.doctor_corpus.family import Case, Expected
from bench.doctor_corpus.traffic import begin_s, called, conversations, first, later, thoughts

from warmroute.doctor import Kind

_SHAPED = (Dialect.CHAT, Dialect.RESPONSES, Dialect.MESSAGES)
_SHORT = (300, 900)


def state_in_system(rng: Random) -> Case:
    """What the program knows at present stands at the head of the system prompt, in new words in each turn."""
    app = application(rng)
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(6, 10))
    return _with_state(rng, app, asked, lambda each, state: f"{state}\n\n{each.system}")


def state_behind_system(rng: Random) -> Case:
    """The same behind the system prompt: the history is lost, not the instructions."""
    app = application(rng, system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(8, 14))
    return _with_state(rng, app, asked, lambda each, state: f"{each.system}\n\n{state}")


def _with_state(rng: Random, app: Application, asked: Sequence[Asked], put: Callable[[Asked, str], str]) -> Case:
    sent, healthy = list[Asked](), list[Asked]()
    for each in asked:
        notes = [app.voice.sentence(rng, "states") for _ in range(rng.randint(2, 4))]
        rng.shuffle(notes)
        state = f"{app.voice.words['notes']}: {' '.join(notes)}"
        sent.append(replace(each, system=put(each, state)))
        message = replace(each.last, text=f"{each.last.text}\n\n{state}")
        healthy.append(replace(each, messages=(*each.messages[:-1], message)))
    return Case(app, sent, healthy, (Expected(Kind.SYSTEM_PROMPT, (system_field(app.dialect),)),))


def truncated(rng: Random) -> Case:
    """A window of the last messages slides over the conversation."""
    app = application(rng, system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(10, 16))
    kept = rng.choice((4, 6, 8))
    sent = [replace(each, messages=each.messages[-kept - 1 :]) for each in asked]
    return Case(app, sent, asked, (Expected(Kind.HISTORY_TRUNCATED, (message_field(asked[0], app.dialect),)),))


def truncated_by_length(rng: Random) -> Case:
    """The oldest pairs of messages go as soon as there are too many characters."""
    app = application(rng, system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(12, 18))
    budget = sum(len(message.text) for message in asked[-1].messages) // 3

    def cut(each: Asked) -> Asked:
        messages = each.messages
        while len(messages) > 3 and sum(len(message.text) for message in messages) > budget:
            messages = messages[2:]
        return replace(each, messages=messages)

    expected = Expected(Kind.HISTORY_TRUNCATED, (message_field(asked[0], app.dialect),))
    return Case(app, [cut(each) for each in asked], asked, (expected,))


def summary_as_message(rng: Random) -> Case:
    """From the third turn on a summary, made anew in each turn, stands for all but the last messages."""
    app = application(rng, system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(9, 14))
    kept = rng.choice((4, 6))

    def summed_up(each: Asked) -> Asked:
        if len(each.messages) <= kept + 1:
            return each
        summary = Message("user", _summary(rng, app))
        return replace(each, messages=(summary, *each.messages[-kept:]))

    sent = [summed_up(each) for each in asked]
    return Case(app, sent, asked, (Expected(Kind.HISTORY_SUMMARISED, (message_field(asked[0], app.dialect),)),))


def summary_in_system(rng: Random) -> Case:
    """The summary is the end of the system prompt, and the last messages follow."""
    app = application(rng, system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(9, 14))
    kept = rng.choice((4, 6))

    def summed_up(each: Asked) -> Asked:
        if len(each.messages) <= kept + 1:
            return each
        return replace(each, system=f"{each.system}\n\n{_summary(rng, app)}", messages=each.messages[-kept:])

    fields = (system_field(app.dialect), message_field(asked[0], app.dialect))
    return Case(app, [summed_up(each) for each in asked], asked, (Expected(Kind.HISTORY_SUMMARISED, fields),))


def _summary(rng: Random, app: Application) -> str:
    told = " ".join(app.voice.sentence(rng, "answers") for _ in range(rng.randint(3, 6)))
    return f"{app.voice.words['summary']}: {told}"


def thoughts_left_out(rng: Random) -> Case:
    """Answers have their thoughts with them only until the next one is there."""
    app = application(rng, dialects=_SHAPED, system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(6, 10), reasoning=True)

    def forgetful(each: Asked) -> Asked:
        newest = max((at for at, message in enumerate(each.messages) if message.reasoning is not None), default=None)
        return replace(
            each,
            messages=tuple(
                message if at == newest else replace(message, reasoning=None)
                for at, message in enumerate(each.messages)
            ),
        )

    sent = [forgetful(each) for each in asked]
    return Case(app, sent, asked, (Expected(Kind.REASONING_DROPPED, (history_field(app.dialect),)),))


def thoughts_left_out_after_calls(rng: Random) -> Case:
    """While an agent calls tools its thoughts stay; with the next message of the user all before it are left out."""
    app = application(rng, dialects=_SHAPED, system_tokens=_SHORT, tools=(2, 5))
    asked = list[Asked]()
    for _ in range(rng.randint(1, 3)):
        step = first(rng, app, begin_s(rng), Message("user", app.voice.question(rng, 2)))
        for _ in range(rng.randint(3, 4)):
            asked.append(step)
            for _ in range(rng.randint(2, 4)):
                call, result = called(rng, app)
                step = later(step, rng.uniform(3, 20), replace(call, reasoning=thoughts(rng, app)), result)
                asked.append(step)
            answer, more = Message("assistant", app.voice.answer(rng)), Message("user", app.voice.question(rng))
            step = later(step, rng.uniform(20, 90), answer, more)
    asked.sort(key=lambda each: each.at_s)

    def forgetful(each: Asked) -> Asked:
        newest = max(at for at, message in enumerate(each.messages) if message.role == "user")
        messages = (
            message if at > newest else replace(message, reasoning=None) for at, message in enumerate(each.messages)
        )
        return replace(each, messages=tuple(messages))

    sent = [forgetful(each) for each in asked]
    return Case(app, sent, asked, (Expected(Kind.REASONING_DROPPED, (history_field(app.dialect),)),))


def thoughts_cut_from_text(rng: Random) -> Case:
    """The same where they stand in the text, between tags."""
    app = application(rng, dialects=(Dialect.CHAT, Dialect.COMPLETIONS), system_tokens=_SHORT, tools=(0, 0))
    asked = conversations(rng, app, rng.randint(1, 3), rng.randint(6, 10), reasoning=True)

    def inline(each: Asked, which: Callable[[int, int], bool]) -> Asked:
        newest = max((at for at, message in enumerate(each.messages) if message.reasoning is not None), default=-1)
        return replace(
            each, messages=tuple(_inline(message, which(at, newest)) for at, message in enumerate(each.messages))
        )

    sent = [inline(each, eq) for each in asked]
    healthy = [inline(each, le) for each in asked]
    return Case(app, sent, healthy, (Expected(Kind.REASONING_DROPPED, (history_field(app.dialect),)),))


def _inline(message: Message, kept: bool) -> Message:
    thought = f"<think>\n{message.reasoning}\n</think>\n\n" if kept and message.reasoning is not None else ""
    return replace(message, text=f"{thought}{message.text}", reasoning=None)
