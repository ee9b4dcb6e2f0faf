"""The same text and the same ids as transformers, which the engines render and encode with, for every family and body.

transformers gets the conversation in the shape in which the engines hand it over (`corpus/engine_shape.py`).
"""

import dataclasses
import datetime
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import transformers.utils.chat_template_utils as clock_of_transformers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tokenizer.corpus.conversations import BODIES, Body
from tokenizer.corpus.engine_shape import conversation, template_arguments
from tokenizer.corpus.families import FAMILIES, PARAGRAPHS, Family
from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Endpoint, Prompt, parse_prompt
from warmroute.tokenizer import LocalTokenizer

TODAY = datetime.datetime(2026, 3, 9, 23, 30)


class FrozenClock(datetime.datetime):
    """Stands for `datetime` where transformers asks it for the date."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "FrozenClock":
        return cls(TODAY.year, TODAY.month, TODAY.day, TODAY.hour, TODAY.minute, tzinfo=tz)


@dataclass(frozen=True)
class Twins:
    """A family's model, read by the package and by transformers."""

    family: Family
    ours: LocalTokenizer
    theirs: Any

    def expected(self, body: Body) -> tuple[str, list[int]]:
        """The text and the ids of transformers; raises what the template raises."""
        messages, arguments = conversation(body, self.family), template_arguments(body, self.family)
        text = self.theirs.apply_chat_template(messages, tokenize=False, **arguments)
        special = body.get("add_special_tokens", False)
        ids = self.theirs(text, add_special_tokens=special)["input_ids"]
        if not special:
            again = self.theirs.apply_chat_template(messages, tokenize=True, return_dict=False, **arguments)
            assert again == ids
        return text, ids


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Twins]:
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return {name: twins_of(family, tmp_path_factory.mktemp(name)) for name, family in FAMILIES.items()}


def twins_of(family: Family, folder: Path) -> Twins:
    family.write(folder)
    ours = LocalTokenizer.load(folder, clock=lambda: TODAY)
    return Twins(family, ours, PreTrainedTokenizerFast.from_pretrained(folder))


@pytest.fixture(autouse=True)
def _frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_of_transformers, "datetime", FrozenClock)


def expected_or_refused(twins: Twins, body: Body) -> tuple[str, list[int]] | None:
    try:
        return twins.expected(body)
    except Exception:  # A template is a program of somebody else's and may raise anything.
        return None


# What each family's template refuses of the corpus: turns that do not alternate, system turns, calls of some kinds, and
# names of templates that the model has not.
REFUSED = {
    "llama3": 2,
    "llama3_1": 4,
    "qwen3": 2,
    "qwen2_5": 2,
    "mistral": 8,
    "mistral_v1": 43,
    "llama2": 23,
    "gemma2": 42,
    "gemma3": 23,
    "deepseek_v3": 2,
    "deepseek_r1": 2,
    "phi3": 2,
    "phi4": 2,
    "glm": 2,
    "harmony": 3,
    "chatml": 0,
}


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.parametrize("name", FAMILIES)
def test_text_and_ids(twins: dict[str, Twins], name: str, case: str) -> None:
    both, body = twins[name], BODIES[case]
    prompt = parse_prompt(Endpoint.CHAT, json.dumps({"model": "m", **body}).encode())
    expected = expected_or_refused(both, body)
    if expected is None:
        with pytest.raises(TemplateError):
            both.ours.encode(prompt)
        return
    (chat,) = prompt.contents
    assert isinstance(chat, ChatContent)
    assert both.ours.render(chat) == expected[0]
    tokens = both.ours.encode(prompt)
    assert list(tokens.ids) == expected[1]
    assert (tokens.total, tokens.complete, prompt.exact) == (len(expected[1]), True, True)


def test_every_family_renders_most_of_the_corpus(twins: dict[str, Twins]) -> None:
    """A template that refuses everything would agree with transformers, too."""
    refused = {
        name: sum(expected_or_refused(both, body) is None for body in BODIES.values()) for name, both in twins.items()
    }
    assert refused == REFUSED
    assert len(FAMILIES) * len(BODIES) - sum(refused.values()) > 1000


def plain_texts() -> list[str]:
    """Every text of the corpus by itself, and what a piece may begin with."""
    contents = [message.get("content") for body in BODIES.values() for message in body["messages"]]
    return ["", " a", "  a", "\n a", PARAGRAPHS, *(content for content in contents if isinstance(content, str))]


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_ids_of_plain_texts(twins: dict[str, Twins], name: str, special: bool) -> None:
    for text in plain_texts():
        expected = twins[name].theirs(text, add_special_tokens=special)["input_ids"]
        assert list(twins[name].ours.encode_text(text, special)) == expected


# What the families' repositories name as `model_type` and `tokenizer_class`: transformers chooses its class by both,
# and some classes build their own pipeline around the vocabulary of the tokenizer.json.
CLASSES = {
    "llama3": ("llama", "PreTrainedTokenizerFast"),
    "llama2": ("llama", "LlamaTokenizer"),
    "mistral": ("mistral", "PreTrainedTokenizerFast"),
    "mistral_v1": ("mistral", "LlamaTokenizer"),
    "phi3": ("phi3", "LlamaTokenizer"),
    "phi4": ("phi3", "GPT2Tokenizer"),
    "gemma2": ("gemma2", "GemmaTokenizer"),
    "gemma3": ("gemma3_text", "GemmaTokenizer"),
    "qwen2_5": ("qwen2", "Qwen2Tokenizer"),
    "qwen3": ("qwen3", "Qwen2Tokenizer"),
    "deepseek_v3": ("deepseek_v3", "LlamaTokenizerFast"),
    "glm": ("glm4_moe", "PreTrainedTokenizerFast"),
    "harmony": ("gpt_oss", "PreTrainedTokenizerFast"),
    "chatml": ("gpt2", "GPT2Tokenizer"),
}
_OWN_PIPELINE = pytest.mark.xfail(reason="LlamaTokenizer puts no mark before a piece that begins with a space")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[_OWN_PIPELINE] if name == "llama2" else []) for name in CLASSES]
)
def test_ids_of_the_class_that_engines_load(tmp_path: Path, name: str) -> None:
    FAMILIES[name].write(tmp_path)
    model_type, tokenizer_class = CLASSES[name]
    file = tmp_path / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"tokenizer_class": tokenizer_class}
    file.write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}), encoding="utf-8")
    ours, theirs = LocalTokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    for text in plain_texts():
        for special in (False, True):
            assert list(ours.encode_text(text, special)) == theirs(text, add_special_tokens=special)["input_ids"]


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "x" * 5000 + "\ud800"])
@pytest.mark.parametrize("name", FAMILIES)
def test_half_of_a_surrogate_pair_is_no_text(twins: dict[str, Twins], name: str, text: str) -> None:
    """Python's strings can hold one, and JSON can write one; no tokenizer can take it."""
    both = twins[name]
    prompt = Prompt(Endpoint.CHAT, contents=(ChatContent([{"role": "user", "content": text}]),))
    with pytest.raises(TemplateError):
        both.ours.encode(prompt)
    with pytest.raises(TemplateError):
        both.ours.encode_text(text, False)
    with pytest.raises(Exception, match=r"surrogates|TextEncodeInput"):
        both.theirs(text)


def test_a_token_that_the_configuration_only_names_keeps_its_flags(tmp_path: Path) -> None:
    both = twins_of(dataclasses.replace(FAMILIES["phi4"], declares_tokens=False), tmp_path)
    assert both.theirs.eos_token == "<|im_end|>"
    text = "a  <|im_end|> \n b"
    assert list(both.ours.encode_text(text, False)) == both.theirs(text)["input_ids"]


def test_the_date_is_that_of_the_clock(twins: dict[str, Twins]) -> None:
    chat = ChatContent([{"role": "user", "content": "Hello"}])
    assert "Today: 09 Mar 2026" in twins["llama3_1"].ours.render(chat)
    assert "Today: 2026-03-09" in twins["harmony"].ours.render(chat)
