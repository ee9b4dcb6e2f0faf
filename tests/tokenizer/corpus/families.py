"""The tokenizers and the chat templates of the corpus, and how they belong together.

The tokenizers are made by `tools/make_parity_tokenizers.py`. The templates are written for this corpus: the special
tokens and the order of things are their families', the sentences and the code are not.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).resolve().parent
TOKENIZERS = {file.stem: file for file in sorted((CORPUS / "tokenizers").glob("*.json"))}
PARAGRAPHS = (CORPUS / "paragraphs.txt").read_text(encoding="utf-8")


def write_tokenizer(folder: Path, name: str) -> Path:
    """A model's folder with the tokenizer `name`, without chat template; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(TOKENIZERS[name].read_bytes())
    return folder


def special_contents(name: str) -> list[str]:
    """The texts of the added tokens of the tokenizer `name`."""
    return [token["content"] for token in json.loads(TOKENIZERS[name].read_text(encoding="utf-8"))["added_tokens"]]


@dataclass(frozen=True)
class Family:
    """A model family: a tokenizer, one or more templates, and the tokens that the templates ask for by name.

    takes_parts: the engines hand its template the contents as lists of parts, because it walks over them.
    knows_developer: its template has a developer role; for the others engines make such messages system messages.
    declares_tokens: its configuration repeats the added tokens with their flags, as those of the families do.
    """

    tokenizer: str
    special_tokens: dict[str, str]
    templates: tuple[str, ...]
    takes_parts: bool = False
    knows_developer: bool = False
    declares_tokens: bool = False

    def template_texts(self) -> dict[str, str]:
        """The templates by the names that a client or an engine calls them by."""
        files = {name: CORPUS / "templates" / f"{name}.jinja" for name in self.templates}
        texts = {name.rpartition(".")[2]: file.read_text(encoding="utf-8") for name, file in files.items()}
        return texts if len(texts) > 1 else {"default": next(iter(texts.values()))}

    def configuration(self) -> dict[str, Any]:
        """The `tokenizer_config.json`."""
        texts = self.template_texts()
        named = [{"name": name, "template": text} for name, text in texts.items()]
        declared = {"added_tokens_decoder": self._declared_tokens()} if self.declares_tokens else {}
        return {
            **self.special_tokens,
            **declared,
            "chat_template": named if len(named) > 1 else texts["default"],
        }

    def _declared_tokens(self) -> dict[str, Any]:
        tokens = json.loads(TOKENIZERS[self.tokenizer].read_text(encoding="utf-8"))["added_tokens"]
        return {str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in tokens}

    def write(self, folder: Path) -> Path:
        """The model's folder; returns it."""
        write_tokenizer(folder, self.tokenizer)
        text = json.dumps(self.configuration(), ensure_ascii=False)
        (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
        return folder


_LLAMA = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
_CHATML = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
_SENTENCES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_DEEPSEEK = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}  # noqa: RUF001

FAMILIES: dict[str, Family] = {
    "llama3": Family("llama3", _LLAMA, ("llama3",)),
    "llama3_1": Family("llama3", _LLAMA, ("llama3_1",), declares_tokens=True),
    "qwen3": Family("qwen3", _CHATML, ("qwen3",), declares_tokens=True),
    "qwen2_5": Family("qwen2_5", _CHATML, ("qwen2_5",)),
    "mistral": Family("tekken", _SENTENCES, ("mistral",)),
    "mistral_v1": Family("mistral_v1", _SENTENCES, ("mistral_v1",)),
    "llama2": Family("llama2", _SENTENCES, ("llama2",)),
    "gemma2": Family("gemma", {"bos_token": "<bos>", "eos_token": "<end_of_turn>"}, ("gemma2",)),
    "gemma3": Family("gemma", {"bos_token": "<bos>", "eos_token": "<end_of_turn>"}, ("gemma3",), takes_parts=True),
    "deepseek_v3": Family("deepseek", _DEEPSEEK, ("deepseek_v3",)),
    "deepseek_r1": Family("deepseek", _DEEPSEEK, ("deepseek_r1",)),
    "phi3": Family("phi3", {**_SENTENCES, "eos_token": "<|endoftext|>"}, ("phi3",)),
    "phi4": Family("phi4", _CHATML, ("phi4",), declares_tokens=True),
    "glm": Family("glm", {"eos_token": "<|endoftext|>"}, ("glm",), takes_parts=True),
    "harmony": Family(
        "harmony", {"bos_token": "<|startoftext|>", "eos_token": "<|return|>"}, ("harmony",), knows_developer=True
    ),
    "chatml": Family("gpt2", _CHATML, ("chatml.default", "chatml.tool_use", "chatml.rag")),
}
