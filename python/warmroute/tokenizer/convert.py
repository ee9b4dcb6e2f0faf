"""Tokenizers in older formats, made into a tokenizer.json by the library with which engines read them as well.

SentencePiece (`tokenizer.model`, `spiece.model`), tiktoken (`*.tiktoken`, `tiktoken.model`) and byte-pair files
(`vocab.json` with `merges.txt`) are read by transformers, which is the extra `warmroute[convert]`. A repository's own
Python code is never run.
"""

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from warmroute.errors import ModelAssetError

_FORMATS = ("tokenizer.model", "spiece.model", "tiktoken.model", "*.tiktoken", "vocab.json", "vocab.txt")
# Whatever of these changes, the conversion may come out otherwise.
_INPUTS = (
    *_FORMATS,
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
)
_TEKKEN = "tekken.json"
_LEAVE_IT = "or leave --tokenizer out for this model: its engines are asked then"


def converted(folder: Path) -> Path:
    """A tokenizer.json made from what is in `folder`, kept for the next start. Raises ModelAssetError."""
    if not is_convertible(folder):
        raise ModelAssetError(_nothing_in(folder))
    kept = cache_folder(os.environ) / f"{_fingerprint(folder)}.json"
    if not kept.is_file():
        if importlib.util.find_spec("transformers") is None:
            raise ModelAssetError(
                f"{folder} has no tokenizer.json, and converting what it has takes transformers: "
                f"`pip install 'warmroute[convert]'`, {_LEAVE_IT}"
            )
        _write(kept, _convert(folder))
    return kept


def is_convertible(folder: Path) -> bool:
    """Whether a folder has a tokenizer in one of the formats that are converted."""
    return any(_found(folder, _FORMATS))


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where converted tokenizers are kept: $XDG_CACHE_HOME or ~/.cache, else the system's temporary folder."""
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # relative ones are invalid, says XDG
        base = f"{environ['HOME']}/.cache" if environ.get("HOME") else tempfile.gettempdir()
    return Path(base) / "warmroute" / "tokenizers"


def _nothing_in(folder: Path) -> str:
    if (folder / _TEKKEN).is_file():
        return (
            f"{folder} has its tokenizer only as Mistral's {_TEKKEN}, which is not read here; "
            "leave --tokenizer out for this model: its engines are asked then"
        )
    return f"{folder} has no tokenizer.json, and nothing that one can be made of; give the model's folder, {_LEAVE_IT}"


def _found(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())


def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in _found(folder, _INPUTS):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _convert(folder: Path) -> str:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
        backend = tokenizer.backend_tokenizer
        return str(backend.to_str())
    except Exception as exc:  # transformers raises whatever its converters and their libraries do.
        raise ModelAssetError(
            f"the tokenizer in {folder} could not be converted ({type(exc).__name__}: {str(exc)[:200]}); it may take "
            f"sentencepiece, tiktoken and protobuf: `pip install 'warmroute[convert]'`, {_LEAVE_IT}"
        ) from exc


def _write(path: Path, text: str) -> None:
    """Whole or not at all: several routers may start at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as exc:
        raise ModelAssetError(f"a converted tokenizer cannot be kept in {path.parent}: {exc}") from exc
