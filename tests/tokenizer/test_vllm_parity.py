"""The same ids as a real vLLM, for every endpoint that is rendered and for templates in the style of four families."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tokenizer.requests_to_render import HERE, IMAGES, PLAIN, TODAY, bodies, templates, write_model
from warmroute.openai_api import ChatContent, Endpoint, Prompt, Untold, parse_prompt
from warmroute.tokenizer import LocalTokenizer, TokenIds

GOLDEN: dict[str, dict[str, Any]] = json.loads((HERE / "golden" / "vllm.json").read_text(encoding="utf-8"))
# vLLM refuses these at its door. We render them as older and other engines do; where it is refused nothing is stored.
MORE_LENIENT = {"chat / no tools", "chat / strings as parts", "responses / refusal", "completions / empty"}
# Refused by a template that wants its turns to alternate, or its tools and calls in a certain shape.
STRICT = {
    "alternating": {
        "chat / roles do not alternate",
        "chat / tools as option",
        "chat / tools and tools as option",
        "chat / function role",
        "responses / two thoughts and a summary",
        "messages / tools",
        "messages / results of several kinds",
    },
    "dated": {"responses / thoughts, text and calls", "messages / results of several kinds"},
    "parts": {"chat / tools and tools as option"},
}


def load(folder: Path, template: str) -> LocalTokenizer:
    write_model(folder, templates()[template])
    return LocalTokenizer.load(folder, clock=lambda: datetime(*TODAY))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalTokenizer]:
    return {name: load(tmp_path_factory.mktemp(name), name) for name in templates()}


BODIES = {f"{endpoint} / {name}": (endpoint, body) for endpoint, name, body in bodies() + bodies(PLAIN)}
WITH_IMAGES = {f"chat / {name}" for name in IMAGES}


def told(tokenizers: dict[str, LocalTokenizer], case: str) -> tuple[LocalTokenizer, Prompt, TokenIds]:
    """The tokenizer of a case, its prompt, and the tokens of that."""
    template, _, request = case.partition(" / ")
    endpoint, body = BODIES[request]
    prompt = parse_prompt(Endpoint(endpoint), json.dumps(body).encode())
    return tokenizers[template], prompt, tokenizers[template].encode(prompt)


def cases(with_images: bool) -> list[str]:
    return [
        case
        for case, golden in GOLDEN.items()
        if "ids" in golden and (case.partition(" / ")[2] in WITH_IMAGES) is with_images
    ]


@pytest.mark.parametrize("case", cases(with_images=False))
def test_ids_are_those_of_vllm(tokenizers: dict[str, LocalTokenizer], case: str) -> None:
    tokenizer, prompt, tokens = told(tokenizers, case)
    assert tokenizer.decode(tokens.ids) == tokenizer.decode(GOLDEN[case]["ids"])
    assert list(tokens.ids) == GOLDEN[case]["ids"]
    assert tokens.total == GOLDEN[case]["total"]
    assert prompt.exact
    assert prompt.untold is None
    assert tokens.complete


@pytest.mark.parametrize("case", cases(with_images=True))
def test_a_conversation_with_images_is_told_up_to_the_first_one(
    tokenizers: dict[str, LocalTokenizer], case: str
) -> None:
    tokenizer, prompt, tokens = told(tokenizers, case)
    (chat,) = prompt.contents
    assert isinstance(chat, ChatContent)
    text, _, _ = GOLDEN[case]["text"].partition("<image>")
    assert tokenizer.render(chat) == text
    assert GOLDEN[case]["ids"][: len(tokens.ids)] == list(tokens.ids)
    assert (prompt.exact, prompt.untold, tokens.complete) == (False, Untold.MULTIMODAL, False)


def test_every_request_was_recorded_and_only_known_ones_are_refused() -> None:
    recorded = {f"{template} / {endpoint} / {name}" for template in templates() for endpoint, name, _ in bodies()}
    recorded |= {f"tiny / {endpoint} / {name}" for endpoint, name, _ in bodies(PLAIN)}
    assert recorded == set(GOLDEN)
    for case, golden in GOLDEN.items():
        template, _, request = case.partition(" / ")
        known = request in MORE_LENIENT or request in STRICT.get(template, ())
        assert ("refused" in golden) is known, case
    assert sum("ids" in golden for golden in GOLDEN.values()) == 696
