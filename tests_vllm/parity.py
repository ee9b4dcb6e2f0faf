"""Our token ids beside a real vLLM's: `/tokenize` and the render pages, for every body that our tests know.

The bodies are those of tests/tokenizer. On the engine with the packaged model each conversation is rendered by every
template, which the request brings; each large family, of which there is a small tokenizer, has a render server.
"""

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests_vllm.servers import MODEL_NAME
from tokenizer import requests_to_render
from tokenizer.corpus.conversations import BODIES
from tokenizer.corpus.families import CORPUS, FAMILIES, PARAGRAPHS
from warmroute.cli import tokens_check, tokens_text
from warmroute.cli.tokens_body import NamedBody
from warmroute.cli.tokens_check import BodyResult, PageResult, Verdict
from warmroute.cli.tokens_engine import AskedEngine
from warmroute.cli.tokens_options import NamedTokenizers, TokensOptions
from warmroute.cli.tokens_prompt import read_prompt, tell
from warmroute.tokenizer import packaged_model

_PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "embeddings": "/v1/embeddings",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
_AT_ONCE = 4
# vLLM 0.32 answers these with 500 for an error of its own: it expects a text in a refusal.
_NOT_BY_VLLM = frozenset({"responses / refusal"})


@dataclass(slots=True)
class FamilyParity:
    """What the comparison on one server came to; `answers` were compared, `bodies` were asked for.

    refused: bodies that vLLM does not take, so that there is nothing to compare, with its reason.
    deviating: bodies for which its /tokenize tells other ids than the render page of the endpoint, which equal ours.
    problems: everything else that is not equal, with both sides.
    """

    family: str
    bodies: int
    answers: int = 0
    equal: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    deviating: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def families() -> list[str]:
    """The names of the corpus' families."""
    return sorted(FAMILIES)


def make_family_model(family: str, folder: Path) -> Path:
    """The packaged model's configuration with a family's tokenizer and templates, and no weights. Returns `folder`."""
    FAMILIES[family].write(folder)
    shutil.copy(packaged_model(MODEL_NAME) / "config.json", folder)
    file = folder / "tokenizer_config.json"
    # By the configuration it is a Llama, for which transformers would make a tokenizer of its own.
    config = json.loads(file.read_text(encoding="utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    file.write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    return folder


def bodies(templates: Mapping[str, str]) -> list[NamedBody]:
    """All bodies as they are; each conversation once more for each of `templates`; paragraphs in many languages.

    Without those with images, which no model here takes.
    """
    known = [
        (f"{endpoint} / {name}", _PATHS[endpoint], body)
        for endpoint, name, body in requests_to_render.bodies()
        if name not in requests_to_render.IMAGES
    ]
    known += [(f"corpus / {name}", _PATHS["chat"], body) for name, body in BODIES.items()]
    named = [NamedBody(name, _encoded(body), path) for name, path, body in known]
    named += [
        NamedBody(f"{template} / {name}", _encoded({**body, "chat_template": text}), path)
        for template, text in templates.items()
        for name, path, body in known
        if path == _PATHS["chat"]
    ]
    for number, paragraph in enumerate(filter(None, PARAGRAPHS.splitlines()), 1):
        for special in (True, False):
            body = {"prompt": paragraph, "add_special_tokens": special}
            kind = "with" if special else "without"
            named.append(NamedBody(f"paragraph {number} {kind} special tokens", _encoded(body), _PATHS["completions"]))
    return named


def all_templates() -> dict[str, str]:
    """The templates of our tests, and of the corpus."""
    own = requests_to_render.templates()
    corpus = sorted((CORPUS / "templates").glob("*.jinja"))
    return own | {f"corpus {path.stem}": path.read_text(encoding="utf-8") for path in corpus}


async def check_family(
    session: aiohttp.ClientSession, family: str, url: str, model: Path, asked: Sequence[NamedBody]
) -> FamilyParity:
    """Compare our tokens of `asked`, by the tokenizer in folder `model`, with those of the server at `url`."""
    options = TokensOptions(tokenizer=(str(model),), trust_request_chat_template=True)
    tokenizer = NamedTokenizers(options).of(None)
    engine = AskedEngine(session, url, model=MODEL_NAME)
    free = asyncio.Semaphore(_AT_ONCE)

    async def compared(named: NamedBody) -> BodyResult:
        async with free:
            told = tell(named, tokenizer, read_prompt(named), options)
            return tokens_check.judge(told, await engine.ask(told))

    parity = FamilyParity(family, len(asked))
    for result in await asyncio.gather(*map(compared, asked)):
        _note(parity, result)
    return parity


def _note(parity: FamilyParity, result: BodyResult) -> None:
    name, verdict = result.body.named.name, result.verdict
    parity.verdicts[verdict.value] = parity.verdicts.get(verdict.value, 0) + 1
    compared = [page for page in result.pages if page.verdict in (Verdict.EQUAL, Verdict.DIFFERENT)]
    parity.answers += len(compared)
    parity.equal += sum(page.verdict is Verdict.EQUAL for page in compared)
    line = f"{name}: {verdict.value}: {_details(result)}"
    if verdict is Verdict.REFUSED or (verdict is Verdict.FAILED and name in _NOT_BY_VLLM):
        parity.refused.append(line)
    elif verdict not in tokens_check.FINE:
        parity.problems.append(line)
    elif any(page.verdict is Verdict.DIFFERENT for page in compared):
        parity.deviating.append(line)


def _details(result: BodyResult) -> str:
    told = [f"{page.path}: {_detail(page)}" for page in result.pages if page.verdict is not Verdict.EQUAL]
    return "; ".join([*told, result.body.detail or ""]).rstrip("; ")


def _detail(page: PageResult) -> str:
    parting = page.parting
    if parting is None:
        return page.detail or page.verdict.value
    marked = parting.token - parting.first
    ours = tokens_text.line_of_pieces(parting.ours, marked, in_colour=False).plain
    theirs = tokens_text.line_of_pieces(parting.engine, marked, in_colour=False).plain
    return f"from token {parting.token} on: {ours} here, {theirs} there ({parting.cause or 'no cause is seen'})"


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body | {"model": MODEL_NAME}).encode()
