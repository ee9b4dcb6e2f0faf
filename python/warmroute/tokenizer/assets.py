"""Where a tokenizer's files are, and what stands in them.

The files and their precedence are those of Hugging Face transformers (5.24, `tokenization_utils_base.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import warmroute
from warmroute.errors import ModelAssetError
from warmroute.tokenizer.convert import converted, is_convertible

# Everything but the weights.
_HUB_FILES = (
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "config.json",
    "chat_template*",
    "tokenizer.model*",
    "*.tiktoken",
    "tiktoken.model",
    "vocab.*",
    "merges.txt",
    "spiece.model",
    "tekken.json",
)
_HUB_FOLDERS = ("additional_chat_templates/*.jinja",)
_TOKEN_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
DEFAULT_TEMPLATE = "default"


@dataclass(frozen=True, slots=True)
class TokenizerAssets:
    """The files of one tokenizer. `templates` maps the names of its chat templates to their text.

    file: the tokenizer.json itself; in `folder`, but where it was converted from another format.
    model: the model's config.json; empty where there is none.
    """

    folder: Path
    config: Mapping[str, Any]
    special_tokens: Mapping[str, Any]
    templates: Mapping[str, str]
    file: Path
    model: Mapping[str, Any] = field(default_factory=dict)


def packaged_model(name: str) -> Path:
    """The folder of a model that ships with warmroute. Raises ModelAssetError."""
    models = Path(warmroute.__file__).parent / "models"
    folder = models / name
    if not (folder / "tokenizer.json").is_file():
        packaged = ", ".join(sorted(path.parent.name for path in models.glob("*/tokenizer.json")))
        raise ModelAssetError(f"no model {name!r} ships with warmroute; the packaged models are: {packaged}")
    return folder


def find_assets(
    source: "str | Path | TokenizerAssets", *, chat_template: Path | None = None, offline: bool = False
) -> TokenizerAssets:
    """The files of `source`: a folder, a tokenizer.json, the name of a packaged model, a hub id, or found already.

    chat_template: a file with the template to use in place of the model's own, as vLLM's --chat-template.
    offline: a hub id counts only if it is in the hub's cache. Raises ModelAssetError.
    """
    if isinstance(source, TokenizerAssets):
        return source
    named = _expanded(source)
    is_file = named.is_file()
    folder = named.parent if is_file else _folder(source, offline)
    file = named if is_file else folder / "tokenizer.json"
    if not file.is_file():
        file = converted(folder)
    config = _read_object(folder / "tokenizer_config.json")
    templates = _templates(folder, config)
    if chat_template is not None:
        templates = {DEFAULT_TEMPLATE: _read_text(chat_template)}
    model = _read_object(folder / "config.json")
    return TokenizerAssets(folder, config, _special_tokens(folder, config), templates, file, model)


def _expanded(source: str | Path) -> Path:
    try:
        return Path(source).expanduser()
    except RuntimeError as exc:
        raise ModelAssetError(f"{source} is nowhere: {exc}") from exc


def _folder(source: str | Path, offline: bool) -> Path:
    path = _expanded(source)
    if path.is_dir():
        return path
    name = str(source)
    if "/" not in name and (Path(warmroute.__file__).parent / "models" / name).is_dir():
        return packaged_model(name)
    if isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelAssetError(f"there is no folder {name}; give a folder with a tokenizer.json, or a hub id")
    return _hub_folder(name, offline)


def _hub_folder(repo: str, offline: bool) -> Path:
    """The hub's own cache first, so that a router starts without a network; then the hub."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    patterns = [*_HUB_FILES, *_HUB_FOLDERS]
    try:
        cached = Path(huggingface_hub.snapshot_download(repo, allow_patterns=patterns, local_files_only=True))
        if offline or (cached / "tokenizer.json").is_file() or is_convertible(cached):
            return cached
    except LocalEntryNotFoundError:
        pass  # Not there yet; the hub is asked next.
    except HFValidationError as exc:
        raise ModelAssetError(f"{repo!r} is neither a folder, a packaged model nor a hub id") from exc
    if offline:
        raise ModelAssetError(f"{repo!r} is not in the hub's cache on this machine")
    return _download(repo, patterns)


def _download(repo: str, patterns: list[str]) -> Path:
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(repo, allow_patterns=patterns))
    except Exception as exc:  # The hub's client raises the errors of whichever transport it is built on.
        raise ModelAssetError(
            f"the tokenizer of {repo!r} is neither a folder here nor in the hub's cache, and fetching it failed "
            f"({type(exc).__name__}); run `hf download {repo} --include 'tokenizer*' 'chat_template*'` on a machine "
            "with a network, or give the folder of the model"
        ) from exc


def _read_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelAssetError(f"{path} cannot be read ({exc}); fetch it again") from exc
    if not isinstance(value, dict):
        raise ModelAssetError(f"{path} is not a JSON object; fetch it again")
    return value


def _read_text(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as exc:
        raise ModelAssetError(f"the chat template {path} cannot be read: {exc}") from exc


def _special_tokens(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens by the names under which a template asks for them."""
    declared = _read_object(folder / "special_tokens_map.json") | {k: v for k, v in config.items() if v is not None}
    tokens: dict[str, Any] = {
        name: text for name in _TOKEN_NAMES if (text := _token_text(declared.get(name))) is not None
    }
    more = declared.get("additional_special_tokens")
    if isinstance(more, list):
        tokens["additional_special_tokens"] = [text for token in more if (text := _token_text(token)) is not None]
    return tokens


def _token_text(token: Any) -> str | None:
    """A token is written as its text, or as an object that holds its text."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Later sources replace earlier ones of the same name: the processor's, the configuration's, the files'."""
    templates = _configured_templates(_read_object(folder / "chat_template.json").get("chat_template"))
    templates |= _configured_templates(config.get("chat_template"))
    for file in sorted(folder.glob("additional_chat_templates/*.jinja")):
        templates[file.stem] = _read_text(file)
    single = folder / "chat_template.jinja"
    if single.is_file():
        templates[DEFAULT_TEMPLATE] = _read_text(single)
    return templates


def _configured_templates(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {DEFAULT_TEMPLATE: value}
    if not isinstance(value, list):
        return {}
    named = (item for item in value if isinstance(item, dict))
    return {item["name"]: item["template"] for item in named if item.keys() >= {"name", "template"}}
