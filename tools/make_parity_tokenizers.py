"""Makes the tokenizers of `tests/tokenizer/corpus`: small ones with the pipelines of the large families.

    python tools/make_parity_tokenizers.py [FOLDER]

The steps (normalizer, pre-tokenizer, post-processor, decoder), the flags of the added tokens and the switches of the
model are those that the families' own `tokenizer.json` have; the vocabularies are trained here, on the project's own
texts. The same texts give the same bytes.
"""

# ruff: noqa: RUF001  (the families' own signs)

import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "tokenizer" / "corpus"
TEXTS = [*sorted((ROOT / "tools" / "corpus").glob("*.txt")), CORPUS / "paragraphs.txt"]
FOLDER = CORPUS / "tokenizers"
VOCABULARY = 2000

Step = dict[str, Any]

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+"
_CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
)
CL100K = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _SIGNS + r"[\r\n]*|" + _SPACES
QWEN = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = _CASED % (2 * (_CONTRACTIONS + "?",)) + r"|\p{N}{1,3}|" + _SIGNS + r"[\r\n/]*|" + _SPACES
TEKKEN = _CASED % ("", "") + r"|\p{N}|" + _SIGNS + r"[\r\n/]*|" + _SPACES
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _SPACES,
]
# What SentencePiece learns from: a word with all the marks of spaces before it, so that runs of spaces become tokens.
_MARKED_WORDS = r"▁*[^▁\n]+|▁+|\n+"


@dataclass(frozen=True)
class Added:
    """An added token and its flags."""

    content: str
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False

    def definition(self, number: int) -> Step:
        """As it stands in a `tokenizer.json`."""
        return {
            "id": number,
            "content": self.content,
            "single_word": False,
            "lstrip": self.lstrip,
            "rstrip": self.rstrip,
            "normalized": self.normalized,
            "special": self.special,
        }


@dataclass(frozen=True)
class Pipeline:
    """One family's tokenizer without its vocabulary. `first` and `last` are the added tokens before and after it."""

    pre_tokenizer: Step | None
    last: list[Added]
    first: list[Added] = field(default_factory=list)
    normalizer: Step | None = None
    begin: str | None = None
    model: Step = field(default_factory=dict)

    @property
    def is_byte_level(self) -> bool:
        """Whether the vocabulary is of bytes, or else of characters with single bytes to fall back to."""
        return not self.model.get("byte_fallback", False)


def byte_level(*patterns: str) -> Step:
    """Texts cut by each of the patterns, then written as bytes."""
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in patterns
    ]
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not patterns}
    return {"type": "Sequence", "pretokenizers": [*splits, last]} if splits else last


def specials(*contents: str) -> list[Added]:
    """Plain special tokens."""
    return [Added(content) for content in contents]


def words(*contents: str) -> list[Added]:
    """Added tokens that are no special ones."""
    return [Added(content, special=False) for content in contents]


TO_MARKS: Step = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND: Step = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, TO_MARKS]}
FALLBACK: Step = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN_WORDS = ("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_suffix|>")
MISTRAL = ("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
PHI3 = ("<|assistant|>", "<|system|>", "<|end|>", "<|user|>", "<|placeholder1|>")
GLM = ("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>")
GLM_ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
GLM_WORDS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "/nothink")
GLM_ARGUMENTS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
HARMONY = ("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>")
DEEPSEEK_WORDS = (
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>",
    "<｜tool▁outputs▁end｜>",
    "<｜tool▁output▁begin｜>",
    "<｜tool▁output▁end｜>",
    "<｜tool▁sep｜>",
)

PIPELINES: dict[str, Pipeline] = {
    "llama3": Pipeline(
        byte_level(CL100K),
        specials("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>")
        + specials("<|eot_id|>", "<|python_tag|>", "<|finetune_right_pad_id|>"),
        begin="<|begin_of_text|>",
        model={"ignore_merges": True},
    ),
    "qwen3": Pipeline(
        byte_level(QWEN),
        specials(*CHATML) + words(*QWEN_WORDS, "<tool_response>", "</tool_response>", "<think>", "</think>"),
        normalizer={"type": "NFC"},
        model={"continuing_subword_prefix": "", "end_of_word_suffix": "", "ignore_merges": False},
    ),
    "qwen2_5": Pipeline(byte_level(QWEN), specials(*CHATML) + words(*QWEN_WORDS), normalizer={"type": "NFC"}),
    "tekken": Pipeline(
        byte_level(TEKKEN),
        [],
        first=specials("<unk>", "<s>", "</s>", *MISTRAL, "[TOOL_CALLS]", "<pad>", "[THINK]", "[/THINK]"),
        begin="<s>",
        model={"ignore_merges": True},
    ),
    "llama2": Pipeline(
        None, [], first=specials("<unk>", "<s>", "</s>"), normalizer=PREPEND, begin="<s>", model=FALLBACK
    ),
    # What transformers makes of a Mistral or a Llama 2 that is not `legacy`.
    "mistral_v1": Pipeline(
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
        [],
        first=specials("<unk>", "<s>", "</s>", *MISTRAL, "[TOOL_CALLS]"),
        begin="<s>",
        model={**FALLBACK, "ignore_merges": False},
    ),
    "gemma": Pipeline(
        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        words("<start_of_turn>", "<end_of_turn>", "\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "<h1>", "</h1>"),
        first=specials("<pad>", "<eos>", "<bos>", "<unk>") + words("<mask>", "[multimodal]", "<unused0>"),
        normalizer=TO_MARKS,
        begin="<bos>",
        model={**FALLBACK, "ignore_merges": False},
    ),
    "deepseek": Pipeline(
        byte_level(*DEEPSEEK),
        [Added(content, special=False, normalized=True) for content in DEEPSEEK_WORDS]
        + [Added("<|EOT|>", normalized=True), *words("<think>", "</think>")],
        first=specials("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"),
        normalizer={"type": "Sequence", "normalizers": []},
        begin="<｜begin▁of▁sentence｜>",
    ),
    "phi3": Pipeline(
        None,
        [*specials("<|endoftext|>"), *(Added(content, rstrip=True) for content in PHI3)],
        first=[*specials("<unk>", "<s>"), Added("</s>", special=False, rstrip=True)],
        normalizer=PREPEND,
        begin="<s>",
        model=FALLBACK,
    ),
    "phi4": Pipeline(
        byte_level(CL100K),
        [Added(content, lstrip=True, rstrip=True) for content in ("<|dummy_0|>", *CHATML, "<|im_sep|>")]
        + [Added("<|fim_prefix|>", lstrip=True, rstrip=True)],
    ),
    "glm": Pipeline(byte_level(CL100K), specials(*GLM, *GLM_ROLES) + words(*GLM_WORDS, *GLM_ARGUMENTS)),
    "harmony": Pipeline(
        byte_level(O200K), specials(*HARMONY, "<|message|>", "<|call|>"), model={"ignore_merges": True}
    ),
    "gpt2": Pipeline(byte_level(), specials(*CHATML) + words("<co: 0>", "</co: 0>")),
}


def texts() -> Iterator[str]:
    """What the vocabularies are learnt from."""
    for file in TEXTS:
        yield from file.read_text(encoding="utf-8").splitlines(keepends=True)


def common_characters(lines: list[str]) -> list[str]:
    """All but the rare ones, which are left to the bytes, in a fixed order."""
    counts = Counter(itertools.chain.from_iterable(lines))
    return sorted(character for character, count in counts.items() if count > 2)


def learn(pipeline: Pipeline) -> tuple[dict[str, int], list[Any]]:
    """The vocabulary and the merges, numbered from the first added token on."""
    tokenizer = Tokenizer(models.BPE())
    alphabet: list[str] = []
    if pipeline.is_byte_level:
        definition = {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []}
        whole = {**definition, "normalizer": pipeline.normalizer, "pre_tokenizer": pipeline.pre_tokenizer}
        tokenizer = Tokenizer.from_str(json.dumps(whole))
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        lines = list(texts())
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_MARKED_WORDS), behavior="isolated")
        lines = [f"▁{line}".replace(" ", "▁") for line in texts()]
        alphabet = common_characters(lines)
    before = [token.content for token in pipeline.first]
    if not pipeline.is_byte_level:
        before += [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=before,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def definition(pipeline: Pipeline) -> Step:
    """The whole `tokenizer.json`."""
    vocabulary, merges = learn(pipeline)
    size = len(vocabulary)
    added = [token.definition(vocabulary[token.content]) for token in pipeline.first]
    added += [token.definition(vocabulary.get(token.content, size + i)) for i, token in enumerate(pipeline.last)]
    numbers = {token["content"]: token["id"] for token in added}
    model: Step = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
    model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": pipeline.normalizer,
        "pre_tokenizer": pipeline.pre_tokenizer,
        "post_processor": post_processor(pipeline, numbers),
        "decoder": decoder(pipeline),
        "model": model | pipeline.model | {"vocab": vocabulary, "merges": merges},
    }


def post_processor(pipeline: Pipeline, numbers: dict[str, int]) -> Step | None:
    """Puts the first token before a text, where the family has one."""
    plain = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    begin = pipeline.begin
    if begin is None:
        return plain if pipeline.is_byte_level else None
    special, sequence = {"SpecialToken": {"id": begin, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    second = [{"SpecialToken": {"id": begin, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}]
    template = {
        "type": "TemplateProcessing",
        "single": [special, sequence],
        "pair": [special, sequence, *second],
        "special_tokens": {begin: {"id": begin, "ids": [numbers[begin]], "tokens": [begin]}},
    }
    return {"type": "Sequence", "processors": [plain, template]} if pipeline.is_byte_level else template


def decoder(pipeline: Pipeline) -> Step:
    """From tokens back to text."""
    if pipeline.is_byte_level:
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    back = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    return {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}]}


def main(folder: Path) -> None:
    """Write one file for each family into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pipeline in PIPELINES.items():
        text = json.dumps(definition(pipeline), ensure_ascii=False, separators=(",", ":"))
        size = Tokenizer.from_str(text).get_vocab_size()
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: {size} tokens, {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
