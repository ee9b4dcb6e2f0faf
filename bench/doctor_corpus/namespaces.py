"""Equal prompts that a cache keeps apart: another model, adapter or salt."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from bench.doctor_corpus.application import Application, application
from bench.doctor_corpus.asked import Asked
from bench.doctor_corpus.dialects import Dialect
from bench.doctor_corpus.family import Case, Expected
from bench.doctor_corpus.traffic import conversations, either, questions
from bench.doctor_corpus.volatile import hexadecimal, uuid

from warmroute.doctor import Kind

_FEW, _MANY = 8, 14
_ALIASES = (
    ("Qwen/Qwen3-32B", "qwen3-32b", "Qwen/Qwen3-32B-FP8", "qwen3-32b-latest"),
    ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b", "llama-3.3-70b-instruct", "meta/llama-3.3-70b"),
    ("mistral-small", "mistral-small-latest", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"),
    ("gpt-oss-120b", "openai/gpt-oss-120b", "gpt-oss-20b"),
)
_ADAPTERS = ("support", "booking", "claims", "sales", "legal", "archive")


def alias_of_each_client(rng: Random) -> Case:
    """Several names for one model, as clients happened to write them."""
    app, names = application(rng), rng.choice(_ALIASES)
    return _models(app, either(rng, app, rng.randint(_FEW, _MANY)), lambda _: rng.choice(names))


def switched_by_turn(rng: Random) -> Case:
    """A conversation that goes to another model in each turn."""
    app, names = application(rng, system_tokens=(300, 900)), rng.choice(_ALIASES)
    asked = conversations(rng, app, rng.randint(2, 3), rng.randint(5, 9))
    return _models(app, asked, lambda each: names[len(each.messages) // 2 % len(names)])


def _models(app: Application, asked: list[Asked], named: Callable[[Asked], str]) -> Case:
    sent = [replace(each, model=named(each)) for each in asked]
    healthy = [replace(each, model=sent[0].model) for each in asked]
    return Case(app, sent, healthy, (Expected(Kind.MODEL, ("model",)),))


def adapter_in_model(rng: Random) -> Case:
    """`model` names the base and the adapter, and the adapter rotates."""
    app, adapters = application(rng), rng.sample(_ADAPTERS, 4)
    asked = either(rng, app, rng.randint(_FEW, _MANY))
    sent = [replace(each, model=f"{app.model}:{rng.choice(adapters)}") for each in asked]
    healthy = [replace(each, model=sent[0].model) for each in asked]
    return Case(app, sent, healthy, (Expected(Kind.ADAPTER, ("model",)),))


def adapter_by_path(rng: Random) -> Case:
    """SGLang's `lora_path`, for each request the newest checkpoint."""
    app = application(rng, dialects=(Dialect.CHAT, Dialect.COMPLETIONS))
    adapter, step = rng.choice(_ADAPTERS), rng.randrange(100, 900)
    asked = either(rng, app, rng.randint(_FEW, _MANY))
    paths = [f"adapters/{adapter}/checkpoint-{step + 50 * (at // 3)}" for at in range(len(asked))]
    sent = [_with(each, lora_path=path) for each, path in zip(asked, paths, strict=True)]
    healthy = [_with(each, lora_path=paths[0]) for each in asked]
    return Case(app, sent, healthy, (Expected(Kind.ADAPTER, ("lora_path",)),))


def salt_of_each_request(rng: Random) -> Case:
    """A new salt in every request."""
    app = application(rng)
    made = rng.choice((uuid, lambda draw: hexadecimal(draw, 32)))
    return _salted(app, [(each, made(rng)) for each in either(rng, app, rng.randint(_FEW, _MANY))])


def salt_of_each_hour(rng: Random) -> Case:
    """A salt that rotates with the clock."""
    app = application(rng)
    asked = questions(rng, app, rng.randint(_FEW, _MANY), gap_s=2_000)
    return _salted(app, [(each, f"rotation-{each.at_s // 3_600:.0f}") for each in asked])


def _salted(app: Application, salted: list[tuple[Asked, str]]) -> Case:
    sent = [_with(each, cache_salt=salt) for each, salt in salted]
    healthy = [_with(each, cache_salt="shared") for each, _ in salted]
    return Case(app, sent, healthy, (Expected(Kind.SALT, ("cache_salt",)),))


def _with(asked: Asked, **fields: Any) -> Asked:
    return replace(asked, fields={**asked.fields, **fields})
