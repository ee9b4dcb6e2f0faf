"""Makes the packaged model `warmroute-tiny`: a byte-level BPE trained on the texts in `tools/corpus`.

    python tools/train_tiny_tokenizer.py [FOLDER]

The same texts give the same bytes: no clock, no chance and no thread order takes part. The chat template beside the
tokenizer is written by hand and is left as it is.
"""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tools" / "corpus"
MODEL = ROOT / "python" / "warmroute" / "models" / "warmroute-tiny"

VOCABULARY = 4096
CONTEXT = 32768
END_OF_TEXT, START_OF_TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = [END_OF_TEXT, START_OF_TURN, END_OF_TURN]

# Words with the space before them, digits one by one, runs of signs, line ends, other space: as the large models cut.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SENTENCES = 1600


def corpus() -> Iterator[str]:
    """Every text to train on: the files as they are, then the composed sentences."""
    for file in sorted(CORPUS.glob("*.txt")):
        if file.name != "words.txt":
            yield file.read_text(encoding="utf-8")
    yield from sentences(word_lists(), SENTENCES)


def word_lists() -> dict[str, list[str]]:
    """The lists of `words.txt` by name."""
    lists: dict[str, list[str]] = {}
    for paragraph in (CORPUS / "words.txt").read_text(encoding="utf-8").split("\n\n")[1:]:
        name, _, words = paragraph.partition("\n")
        lists[name.strip("[]")] = [word.strip() for word in words.split(",")]
    return lists


def sentences(lists: dict[str, list[str]], count: int) -> Iterator[str]:
    """`count` plain sentences; the lists differ in length, so that walking them in turn keeps changing the pairs."""
    walks = {name: itertools.cycle(words) for name, words in lists.items()}
    patterns = itertools.cycle(
        [
            "{person} {action} {thing} {place}, {link} {rest}.",
            "{place}, {person} {action} {thing}.",
            "{thing} is {describing} and {describing2}, {link} {rest}.",
            "{person} and {person2} {action} {thing} {place}. {rest}.",
            "Why is {thing} so {describing}? Perhaps {rest}.",
        ]
    )
    for pattern in itertools.islice(patterns, count):
        chosen = {name: next(walk) for name, walk in walks.items()}
        chosen |= {"describing2": next(walks["describing"]), "person2": next(walks["person"])}
        text = pattern.format(**chosen)
        yield ". ".join(part[:1].upper() + part[1:] for part in text.split(". ")) + "\n"


def train() -> Tokenizer:
    """The tokenizer of the packaged model, `VOCABULARY` tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=1,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def tokenizer_config() -> dict[str, object]:
    """What `transformers` reads beside `tokenizer.json`."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "unk_token": None,
        "additional_special_tokens": [START_OF_TURN],
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
    }


def model_config(vocabulary: int) -> dict[str, object]:
    """A Llama of two layers: small enough for any machine, with weights that an engine makes up."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": SPECIAL_TOKENS.index(END_OF_TURN),
        "pad_token_id": SPECIAL_TOKENS.index(END_OF_TEXT),
        "torch_dtype": "bfloat16",
    }


def generation_config() -> dict[str, object]:
    """Where a generation ends."""
    ends = [SPECIAL_TOKENS.index(END_OF_TURN), SPECIAL_TOKENS.index(END_OF_TEXT)]
    return {"eos_token_id": ends, "pad_token_id": SPECIAL_TOKENS.index(END_OF_TEXT)}


def main(folder: Path) -> None:
    """Write the files of the model into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(folder / "tokenizer.json"))
    configs = {
        "tokenizer_config.json": tokenizer_config(),
        "config.json": model_config(tokenizer.get_vocab_size()),
        "generation_config.json": generation_config(),
    }
    for name, config in configs.items():
        (folder / name).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    print(f"{tokenizer.get_vocab_size()} tokens in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else MODEL)
