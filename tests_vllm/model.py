"""A model folder for vLLM: warmroute's packaged tokenizer and configuration, with random but seeded weights.

vLLM can make up weights itself (`--load-format dummy`), but takes them from +-0.001: each layer then adds next to
nothing, an answer depends on the last token alone, and wrong cached keys and values would not be noticed.
"""

import json
import random
import shutil
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warmroute.tokenizer import packaged_model

PACKAGED_NAME = "warmroute-tiny"
_SEED = 20
# Standard deviation of what a layer puts out, where its input has one of 1. Queries and keys are well above 1, for
# attention that picks out tokens rather than averaging them all.
_GAIN = {"q_proj": 2.0, "k_proj": 2.0, "v_proj": 1.5, "o_proj": 1.5, "lm_head": 2.0}


def make_model(folder: Path) -> Path:
    """Write the model to `folder`, which is created. Returns `folder`. Some 0.6 million weights: a second."""
    shutil.copytree(packaged_model(PACKAGED_NAME), folder)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    _write_safetensors(folder / "model.safetensors", _shapes(config), random.Random(_SEED))
    return folder


def vocabulary(folder: Path) -> int:
    """The number of token ids of the model in `folder`."""
    return int(json.loads((folder / "config.json").read_text())["vocab_size"])


def _shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of each tensor of a LlamaForCausalLM, as Hugging Face stores it: (out, in)."""
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.self_attn.q_proj.weight", (queries, hidden)
        yield f"{layer}.self_attn.k_proj.weight", (keys, hidden)
        yield f"{layer}.self_attn.v_proj.weight", (keys, hidden)
        yield f"{layer}.self_attn.o_proj.weight", (hidden, queries)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        yield f"{layer}.mlp.gate_proj.weight", (inner, hidden)
        yield f"{layer}.mlp.up_proj.weight", (inner, hidden)
        yield f"{layer}.mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (config["vocab_size"], hidden)


def _values(name: str, shape: tuple[int, ...], rng: random.Random) -> bytes:
    if len(shape) == 1:
        return array("f", [1.0] * shape[0]).tobytes()  # norms leave their input's scale alone
    rows, columns = shape
    gain = _GAIN.get(name.split(".")[-2], 1.0)
    spread = 1.0 if "embed_tokens" in name else gain / columns**0.5
    return array("f", (rng.gauss(0.0, spread) for _ in range(rows * columns))).tobytes()


def _write_safetensors(path: Path, shapes: Iterator[tuple[str, tuple[int, ...]]], rng: random.Random) -> None:
    """Float32 tensors in the safetensors format: header length (u64, little endian), JSON header, raw values."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, shape in shapes:
        values = _values(name, shape, rng)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)
