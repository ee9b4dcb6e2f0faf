"""The same ids as a real vLLM, for every endpoint that is rendered and for templates in the style of four families."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tokenizer.requests_to_render import HERE, TODAY, bodies, templates, write_model
from warmroute.openai_api import Endpoint, parse_prompt
from warmroute.tokenizer import LocalTokenizer

GOLDEN: dict[str, dict[str, Any]] = json.loads((HERE / "golden" / "vllm.json").read_text(encoding="utf-8"))
# vLLM refuses these at its door. We render them as older and other engines do; where it is refused nothing is stored.
MORE_LENIENT = {"chat / no tools", "chat / strings as parts"}


def load(folder: Path, template: str) -> LocalTokenizer:
    write_model(folder, templates()[template])
    return LocalTokenizer.load(folder, clock=lambda: datetime(*TODAY))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalTokenizer]:
    return {name: load(tmp_path_factory.mktemp(name), name) for name in templates()}


BODIES = {f"{endpoint} / {name}": (endpoint, body) for endpoint, name, body in bodies()}


@pytest.mark.parametrize("case", [key for key, golden in GOLDEN.items() if "ids" in golden])
def test_ids_are_those_of_vllm(tokenizers: dict[str, LocalTokenizer], case: str) -> None:
    template, _, request = case.partition(" / ")
    endpoint, body = BODIES[request]
    prompt = parse_prompt(Endpoint(endpoint), json.dumps(body).encode())
    tokens = tokenizers[template].encode(prompt)
    assert tokenizers[template].decode(tokens.ids) == tokenizers[template].decode(GOLDEN[case]["ids"])
    assert list(tokens.ids) == GOLDEN[case]["ids"]
    assert prompt.exact


def test_every_request_was_recorded_and_only_known_ones_are_refused() -> None:
    recorded = {f"{template} / {endpoint} / {name}" for template in templates() for endpoint, name, _ in bodies()}
    assert recorded == set(GOLDEN)
    refused = {key.split(" / ", 1)[1] for key, golden in GOLDEN.items() if "refused" in golden}
    assert refused == MORE_LENIENT | {"chat / roles do not alternate", "messages / tools"}
    assert sum("ids" in golden for golden in GOLDEN.values()) == 223
