"""What a chat template adds, and prompts that are shorter than a block."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from bench.doctor_corpus.application import BYTES_PER_TOKEN, Application, application
from bench.doctor_corpus.asked import Asked, Message
from bench.doctor_corpus.dialects import Dialect, message_field, system_field
from bench.doctor_corpus.family import Case, Expected, Scenario
from bench.doctor_corpus.language import language
from bench.doctor_corpus.traffic import begin_s, first, questions

from warmroute.doctor import Kind
from warmroute.doctor.options import BLOCK_TOKENS

_FEW, _MANY = 8, 14
_DAY_S = 86_400.0
_ENGLISH = language("english")


def _llama(system: str, question: str, day: str) -> str:
    return (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        f"Today Date: {day}\n\n{system}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{question}<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def _harmony(system: str, question: str, day: str) -> str:
    return (
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        f"Knowledge cutoff: 2024-06\nCurrent date: {day}\n\nReasoning: medium\n\n# Valid channels: analysis, "
        f"commentary, final. Channel must be included for every message.<|end|><|start|>developer<|message|># "
        f"Instructions\n\n{system}<|end|><|start|>user<|message|>{question}<|end|><|start|>assistant"
    )


def _granite(system: str, question: str, day: str) -> str:
    return (
        f"<|start_of_role|>system<|end_of_role|>Knowledge Cutoff Date: April 2024.\nToday's Date: {day}.\n{system}"
        f"<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>{question}<|end_of_text|>\n"
        "<|start_of_role|>assistant<|end_of_role|>"
    )


_Template = Callable[[str, str, str], str]


def rendered_by_client(template: _Template, day: str, model: str) -> Scenario:
    """A program that renders the model's own template and sends the text."""

    def case(rng: Random) -> Case:
        app = replace(application(rng, dialects=(Dialect.COMPLETIONS,)), model=model)
        asked = questions(rng, app, rng.randint(_FEW, _MANY), gap_s=1.2 * _DAY_S)

        def told(each: Asked, at_s: float) -> Asked:
            text = template(app.system, each.last.text, _ENGLISH.written(day, at_s))
            return replace(each, fields={**each.fields, "prompt": text})

        sent = [told(each, each.at_s) for each in asked]
        healthy = [told(each, asked[0].at_s) for each in asked]
        return Case(app, sent, healthy, (Expected(Kind.TEMPLATE_DATE, ("prompt",)),))

    return case


def handed_to_template(rng: Random) -> Case:
    """Llama's template takes the day as a variable, and writes it in front of the system prompt."""
    app = application(rng, dialects=(Dialect.CHAT,), tools=(0, 0))
    app = replace(app, model="meta-llama/Llama-3.1-70B-Instruct")
    asked = questions(rng, app, rng.randint(_FEW, _MANY), gap_s=1.2 * _DAY_S)

    def told(each: Asked, at_s: float) -> Asked:
        day = _ENGLISH.written("{day2} {month} {year}", at_s)
        return replace(each, fields={**each.fields, "chat_template_kwargs": {"date_string": day}})

    sent = [told(each, each.at_s) for each in asked]
    healthy = [told(each, asked[0].at_s) for each in asked]
    return Case(app, sent, healthy, (Expected(Kind.TEMPLATE_DATE, ("chat_template_kwargs",)),))


TEMPLATE_DATE: tuple[Scenario, ...] = (
    rendered_by_client(_llama, "{day2} {month} {year}", "meta-llama/Llama-3.1-8B-Instruct"),
    rendered_by_client(_harmony, "{year}-{month2}-{day2}", "gpt-oss-20b"),
    rendered_by_client(_granite, "{month} {day2}, {year}", "ibm-granite/granite-3.3-8b-instruct"),
    handed_to_template,
)

# With the firm's name, or two families could be of one application.
_SHORT_SYSTEMS = (
    "{firm}: spam or ham?",
    "{firm}: yes or no?",
    "{firm}: one word.",
    "{firm}: ja oder nein?",
    "{firm} : oui ou non ?",
    "{firm}: ¿sí o no?",
)
_MANNERS = ("Be brief.", "No lists.", "No emoji.", "No links.", "Stay calm.", "Never guess.", "Use no jargon.")
_BLOCK_BYTES = BLOCK_TOKENS * BYTES_PER_TOKEN
# What a dialect writes around the system prompt and in front of the question, at most.
_AROUND = 28


def shorter_than_a_block(rng: Random) -> Case:
    """A system prompt of a few words, and questions of a few words."""
    app = _brief_app(rng)
    return _short(app, _brief_questions(rng, app))


def lost_in_the_last_block(rng: Random) -> Case:
    """One full block, and nearly another, in front of questions of a few words."""
    app = _brief_app(rng)
    text, most = app.system, 2 * _BLOCK_BYTES - _AROUND - 4
    for more in rng.sample(_MANNERS, len(_MANNERS)):
        if len(text.encode()) + len(more) < most:
            text = f"{text} {more}"
    app = replace(app, system=text)
    return _short(app, _brief_questions(rng, app))


def _brief_app(rng: Random) -> Application:
    app = application(rng, languages=("english", "german", "french", "spanish"), tools=(0, 0))
    return replace(app, system=rng.choice(_SHORT_SYSTEMS).format(firm=app.voice.firm))


def _brief_questions(rng: Random, app: Application) -> list[Asked]:
    at_s, asked = begin_s(rng), list[Asked]()
    for _ in range(rng.randint(16, 30)):
        words = app.voice.sentence(rng, "questions").split(" ")[: rng.randint(3, 6)]
        asked.append(first(rng, app, at_s, Message("user", f"{rng.randrange(100, 999)} {' '.join(words)}")))
        at_s += rng.uniform(1, 60)
    return asked


def _short(app: Application, asked: Sequence[Asked]) -> Case:
    """Well, the system prompt would go on up to the end of a block."""
    padded = -(-(len(app.system.encode()) + _AROUND) // _BLOCK_BYTES) * _BLOCK_BYTES
    healthy = [replace(each, system=app.system + " " * (padded - len(app.system.encode()))) for each in asked]
    fields = (system_field(app.dialect), message_field(asked[0], app.dialect))
    return Case(app, asked, healthy, (Expected(Kind.SHORT_PREFIX, fields),))
