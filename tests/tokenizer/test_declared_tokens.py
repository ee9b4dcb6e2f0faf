"""Tokens that only a tokenizer's configuration declares: the ids are those of transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from warmroute.tokenizer import LocalTokenizer, packaged_model

TEXTS = (
    "<zz><yy><qq><|im_start|>  hello",
    "a <qq> b<|im_end|>\n\n<|im_end|> <yy>x<named>",
    "<|endoftext|><|im_start|>user\n<zz> word words a word <yy>",
)
LEFT = {"lstrip": True, "rstrip": False, "single_word": False, "normalized": False}
RIGHT = {"lstrip": False, "rstrip": True, "single_word": False, "normalized": False}

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "a first token that is asked for": {"add_bos_token": True, "bos_token": "<|endoftext|>"},
    "a last token that is asked for": {"add_eos_token": True},
    "named ones": {"eos_token": "<yy>", "bos_token": {"__type": "AddedToken", "content": "<named>", **LEFT}},
    "extra ones": {"extra_special_tokens": ["<zz>", "<|im_end|>"], "eos_token": "<yy>"},
    "extra ones, as they were called": {"additional_special_tokens": ["<zz>", "<qq>"]},
    "other flags for known ones": {"added_tokens_decoder": {"2": {"content": "<|im_end|>", **RIGHT, "special": True}}},
    "numbered ones": {
        "added_tokens_decoder": {
            "5000": {"content": "<qq>", **LEFT, "special": False},
            "4100": {"content": "<zz>", **RIGHT, "special": True},
        },
        "eos_token": "<yy>",
    },
    "ones that are words": {
        "added_tokens_decoder": {
            "4096": {"content": "word", "single_word": True, "lstrip": False, "rstrip": False, "normalized": True}
        }
    },
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_ids_are_those_of_transformers(tmp_path: Path, name: str) -> None:
    packaged = packaged_model("warmroute-tiny")
    for file in ("tokenizer.json", "config.json"):
        (tmp_path / file).write_bytes((packaged / file).read_bytes())
    config = json.loads((packaged / "tokenizer_config.json").read_text(encoding="utf-8")) | CONFIGURATIONS[name]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    theirs, ours = AutoTokenizer.from_pretrained(str(tmp_path)), LocalTokenizer.load(tmp_path)
    for text in TEXTS:
        for special in (True, False):
            assert list(ours.encode_text(text, special)) == theirs(text, add_special_tokens=special).input_ids, text
