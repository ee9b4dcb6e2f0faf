"""An application of the corpus: what all its requests have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log
from random import Random

from bench.doctor_corpus.asked import JsonObject, Tool
from bench.doctor_corpus.dialects import Dialect
from bench.doctor_corpus.language import LANGUAGES, language
from bench.doctor_corpus.voice import Voice

BYTES_PER_TOKEN = 4
_MODELS = {
    Dialect.CHAT: ("Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct", "mistral-small", "gpt-oss-120b"),
    Dialect.COMPLETIONS: ("Qwen/Qwen3-8B-Base", "starcoder2-15b", "meta-llama/Llama-3.1-8B"),
    Dialect.RESPONSES: ("gpt-oss-120b", "gpt-oss-20b", "Qwen/Qwen3-32B"),
    Dialect.MESSAGES: ("claude-sonnet", "Qwen/Qwen3-Coder-30B", "glm-4.6"),
}
_VERBS = ("find", "list", "create", "update", "cancel", "compare", "count", "export", "restore", "schedule", "price")
_NOUNS = ("order", "customer", "invoice", "ticket", "route", "report", "document", "booking", "payment", "item", "site")
_ARGUMENTS = ("id", "city", "amount", "language", "status", "priority", "comment", "owner", "limit", "category")


class Envelope(StrEnum):
    """What a log tells beside the body."""

    BARE = "bare"
    TIMED = "timed"
    NAMED = "named"
    """Time, session, user and application."""


@dataclass(frozen=True, slots=True)
class Application:
    """system: the prompt that its requests share. fields: of the body, the same in all requests."""

    name: str
    voice: Voice
    dialect: Dialect
    model: str
    system: str
    tools: tuple[Tool, ...]
    fields: JsonObject
    in_parts: bool
    envelope: Envelope


def application(
    rng: Random,
    *,
    dialects: Sequence[Dialect] = tuple(Dialect),
    languages: Sequence[str] = LANGUAGES,
    system_tokens: tuple[int, int] = (300, 3_000),
    tools: tuple[int, int] | None = None,
) -> Application:
    """An application at random. tools: how many, from and to; by default half of those that may have some have 2-30."""
    dialect = rng.choice(dialects)
    voice = Voice(language(rng.choice(languages)), rng)
    many = _tool_count(rng, dialect, tools)
    size = _between(rng, *system_tokens) * BYTES_PER_TOKEN
    return Application(
        name=f"app-{rng.randrange(16**6):06x}",
        voice=voice,
        dialect=dialect,
        model=rng.choice(_MODELS[dialect]),
        system=f"{voice.opening(rng)}\n\n{voice.rules(rng, size)}",
        tools=tuple(_tools(rng, voice, many)),
        fields=rng.choice(({}, {"temperature": 0.2}, {"stream": True}, {"temperature": 0, "top_p": 0.95})),
        in_parts=rng.random() < 0.3,
        envelope=rng.choice(tuple(Envelope)),
    )


def _between(rng: Random, least: int, most: int) -> int:
    """Spread evenly over the orders of magnitude: short prompts are more frequent than long ones."""
    return round(exp(rng.uniform(log(least), log(most))))


def _tool_count(rng: Random, dialect: Dialect, tools: tuple[int, int] | None) -> int:
    if tools is None:
        tools = (2, 30) if dialect is not Dialect.COMPLETIONS and rng.random() < 0.5 else (0, 0)
    return _between(rng, *tools) if tools[0] else 0


def _tools(rng: Random, voice: Voice, count: int) -> list[Tool]:
    """No two with the same name."""
    names = rng.sample([f"{verb}_{noun}" for verb in _VERBS for noun in _NOUNS], count)
    return [Tool(name, _description(rng, voice), _schema(rng, voice)) for name in names]


def _description(rng: Random, voice: Voice) -> str:
    return " ".join(voice.sentence(rng, "facts") for _ in range(rng.randint(1, 2)))


def _schema(rng: Random, voice: Voice) -> JsonObject:
    names = rng.sample(_ARGUMENTS, rng.randint(2, 5))
    properties = {
        name: {"type": rng.choice(("string", "integer")), "description": voice.sentence(rng, "duties")}
        for name in names
    }
    return {"type": "object", "properties": properties, "required": names[:1]}
