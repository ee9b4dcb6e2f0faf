"""The model that ships with the package."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.errors import ModelAssetError
from warmroute.tokenizer import LocalTokenizer, packaged_model

TOOL = Path(__file__).resolve().parents[2] / "tools" / "train_tiny_tokenizer.py"
TINY = LocalTokenizer.load("warmroute-tiny")


@pytest.fixture(scope="module")
def trainer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("train_tiny_tokenizer", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_again_gives_the_same_bytes(trainer: ModuleType, tmp_path: Path) -> None:
    trainer.main(tmp_path)
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert made == {name: (packaged_model("warmroute-tiny") / name).read_bytes() for name in made}
    assert len(made) == 4


def test_vocabulary_fits_the_model_and_special_tokens_are_single() -> None:
    config = json.loads((packaged_model("warmroute-tiny") / "config.json").read_text())
    assert TINY.vocab_size == config["vocab_size"] == 4096
    ids = TINY.encode_text("<|endoftext|><|im_start|><|im_end|>", add_special_tokens=True)
    assert list(ids) == [0, 1, 2]
    assert config["head_dim"] * config["num_attention_heads"] == config["hidden_size"]


def test_plain_english_takes_a_token_for_three_characters() -> None:
    text = "Please write a short report about the meeting, and send it to everyone who was there before Friday."
    assert len(TINY.encode_text(text, add_special_tokens=False)) < len(text) / 3


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    assert TINY.decode(TINY.encode_text(text, add_special_tokens=False)) == text


@given(st.lists(st.text(alphabet="ab <|>", max_size=20), min_size=1, max_size=5))
def test_the_next_turn_begins_with_the_whole_last_one(texts: list[str]) -> None:
    """What multi-turn caching lives on: prompt plus answer is a prefix of the next prompt."""
    asked = [{"role": "user", "content": text} for text in texts]
    answered = [*asked, {"role": "assistant", "content": "yes"}]
    before = TINY.render_chat(asked) + "yes<|im_end|>\n"
    assert TINY.render_chat([*answered, {"role": "user", "content": "and?"}]).startswith(before)


def test_an_unknown_packaged_model_is_named_beside_the_known_ones() -> None:
    with pytest.raises(ModelAssetError, match="warmroute-tiny"):
        packaged_model("warmroute-huge")
