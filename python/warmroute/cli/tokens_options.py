"""What `warmroute tokens` can be told of tokenizers, in the words and the variables of `warmroute serve`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warmroute.block import Namespace
from warmroute.cli.tokens_vocabulary import Vocabulary
from warmroute.config import check_range, option
from warmroute.errors import ConfigError
from warmroute.gateway.options import tokenizer_choice
from warmroute.router.block_sizes import DEFAULT_BLOCK_SIZE
from warmroute.tokenizer import Dialect, LocalTokenizer, find_assets
from warmroute.tokenizer.declared_tokens import declared_tokens
from warmroute.worker import LARGEST_COUNT


@dataclass(frozen=True, slots=True)
class TokensOptions:
    """The options that `warmroute serve` has as well, but for the last two, which a request brings there."""

    tokenizer: tuple[str, ...] = option(
        (),
        "the model's tokenizer: a folder, a tokenizer.json, a packaged name or a hub id; MODEL=SOURCE for one model of "
        "several, may be repeated",
        metavar="SOURCE",
    )
    chat_template: str | None = option(
        None, "file with the chat template to use in place of the model's own, as vLLM's option", metavar="FILE"
    )
    trust_request_chat_template: bool = option(
        False, "render chat templates that requests bring, as vLLM with this flag; others are never rendered"
    )
    dialect: str = option(
        "auto", "whose rendering of conversations is followed; auto: vLLM's", choices=("auto", *Dialect)
    )
    block_size: int | None = option(None, f"tokens per KV block; {DEFAULT_BLOCK_SIZE} if not given")
    adapter: str | None = option(None, "name of the LoRA adapter that the blocks are computed with", metavar="NAME")
    cache_salt: str | None = option(None, "cache_salt of the blocks, in place of the body's own", metavar="SALT")

    def __post_init__(self) -> None:
        check_range(self, 1, LARGEST_COUNT, "block_size")
        tokenizer_choice(self.tokenizer)

    @property
    def rendering(self) -> Dialect:
        """Whose rendering is followed."""
        return Dialect.VLLM if self.dialect == "auto" else Dialect(self.dialect)

    @property
    def tokens_per_block(self) -> int:
        """The block size, given or not."""
        return self.block_size or DEFAULT_BLOCK_SIZE

    def namespace(self, of_body: Namespace) -> Namespace:
        """The namespace of a body's blocks, with what was given here in place of its own."""
        return Namespace(self.adapter or of_body.adapter, self.cache_salt or of_body.salt)


@dataclass(frozen=True, slots=True)
class NamedTokenizer:
    """A tokenizer, its vocabulary in bytes, and where it is from; `seams` are those at which it lets texts be cut."""

    source: str
    tokenizer: LocalTokenizer
    vocabulary: Vocabulary
    seams: tuple[str, ...]


@dataclass(slots=True)
class NamedTokenizers:
    """The tokenizers that the options name, each loaded when it is needed first."""

    options: TokensOptions
    _loaded: dict[str, NamedTokenizer] = field(default_factory=dict)

    def of(self, model: str | None) -> NamedTokenizer:
        """The tokenizer for a model. Raises ConfigError where none is named, and ModelAssetError."""
        choice = tokenizer_choice(self.options.tokenizer)
        source = choice.own.get(model or "", choice.for_all)
        if source is None:
            raise ConfigError(_unnamed(model, choice.own))
        if source not in self._loaded:
            self._loaded[source] = _load(source, self.options)
        return self._loaded[source]


def _unnamed(model: str | None, own: Mapping[str, str]) -> str:
    if not own:
        return (
            "no tokenizer is named: give --tokenizer SOURCE, or WARMROUTE_TOKENIZER (a folder, a tokenizer.json, a "
            "packaged name such as warmroute-tiny, or a hub id)"
        )
    return f"no tokenizer is named for {model!r}, only for {', '.join(own)}; give --tokenizer '{model}=SOURCE'"


def _load(source: str, options: TokensOptions) -> NamedTokenizer:
    template = None if options.chat_template is None else Path(options.chat_template)
    assets = find_assets(source, chat_template=template)
    tokenizer = LocalTokenizer.load(assets, trust_request_chat_template=options.trust_request_chat_template)
    vocabulary = Vocabulary.read(assets.file.read_bytes(), tokenizer.added_tokens, declared_tokens(assets))
    return NamedTokenizer(source, tokenizer, vocabulary, tokenizer.seams)
