"""A tokenizer in this process: chat template, then text to ids."""

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from warmroute._native import Encoder, SegmentStats
from warmroute.errors import ModelAssetError, TemplateError
from warmroute.openai_api import ChatContent, Content, JsonObject, Prompt, TokenContent
from warmroute.tokenizer.assets import TokenizerAssets, find_assets
from warmroute.tokenizer.chat_template import ChatTemplate, Clock
from warmroute.tokenizer.declared_tokens import declared_tokens, named_tokens
from warmroute.tokenizer.dialect import Dialect, Rendered, render, template_name
from warmroute.tokenizer.engine_traits import is_encoded_by_code
from warmroute.tokenizer.plain_chats import PlainChats
from warmroute.tokenizer.token_ids import TokenIds
from warmroute.tokenizer.tracing import TracingTemplate

DEFAULT_CACHE_BYTES = 128 * 2**20
"""Some ten million tokens of text: a hundred conversations of 100,000 each."""

_SHARE_OF_CONVERSATIONS = 4
"""The part of that which whole conversations get besides, as ids alone."""

# A fleet's clients bring a few templates of their own, each many times; compiling one takes milliseconds.
_CLIENT_TEMPLATES = 32


@dataclass(frozen=True, slots=True)
class Told:
    """One content of a prompt as the engine sees it.

    text: what is encoded; None for a content that came as ids.
    complete: False where `text` is only the beginning, and `ids` those of it that nothing further on can change.
    """

    text: str | None
    ids: "array[int]"
    complete: bool = True


class LocalTokenizer:
    """Renders and encodes prompts as the engine that serves the model does. Safe from any thread.

    What was encoded before is not encoded again: segments of text and their ids are kept, see `crates/tokens`.
    """

    def __init__(
        self,
        encoder: Encoder,
        assets: TokenizerAssets,
        clock: Clock = datetime.now,
        *,
        trust_request_chat_template: bool = False,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        """`clock` is what templates read that write the date; `cache_bytes` of plain conversations are kept.

        trust_request_chat_template: render by a template that a client brings; engines refuse it unless told so.
        Raises TemplateError for an unreadable template.
        """
        self._encoder = encoder
        self._special_tokens = assets.special_tokens
        self._by_code = [each for each in Dialect if is_encoded_by_code(assets.model, each is Dialect.VLLM)]
        self._templates = {name: ChatTemplate(text, clock) for name, text in assets.templates.items()}
        self._template_names = {text: name for name, text in assets.templates.items()}
        self._trusts_clients = trust_request_chat_template
        self._client_template = lru_cache(_CLIENT_TEMPLATES)(lambda text: ChatTemplate(text, clock))
        self._plain = {} if cache_bytes == 0 else self._plain_chats(clock, cache_bytes)

    @classmethod
    def load(
        cls,
        source: str | Path | TokenizerAssets,
        clock: Clock = datetime.now,
        *,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        trust_request_chat_template: bool = False,
    ) -> Self:
        """From a folder, a file, the name of a packaged model, or a hub id; keeps `cache_bytes` of encoded segments.

        Raises ModelAssetError.
        """
        assets = find_assets(source)
        try:
            definition = assets.file.read_bytes()
            encoder = Encoder(definition, declared_tokens(assets), named_tokens(assets), cache_bytes)
            return cls(
                encoder,
                assets,
                clock,
                trust_request_chat_template=trust_request_chat_template,
                cache_bytes=cache_bytes // _SHARE_OF_CONVERSATIONS,
            )
        except TemplateError as exc:
            raise ModelAssetError(f"{assets.folder}: {exc}") from exc
        except (OSError, ValueError) as exc:
            raise ModelAssetError(f"{assets.file} cannot be read ({exc}); fetch it again") from exc

    @property
    def vocab_size(self) -> int:
        """Tokens in the vocabulary, special ones included."""
        return self._encoder.vocab_size

    @property
    def added_tokens(self) -> list[tuple[int, str]]:
        """Ids and texts of the tokens that are taken out of a text before anything else happens."""
        return self._encoder.added_tokens

    @property
    def seams(self) -> tuple[str, ...]:
        """The kinds of places at which long texts are proven to be cut without harm."""
        return tuple(self._encoder.seams)

    def encode(self, prompt: Prompt, dialect: Dialect = Dialect.VLLM) -> TokenIds:
        """The ids of the first content, and the number over all as far as they are told. Raises TemplateError."""
        told = [self.tell(content, dialect) for content in prompt.contents]
        if not told:
            return TokenIds(array("I"), 0)
        return TokenIds(told[0].ids, sum(len(each.ids) for each in told), all(each.complete for each in told))

    def tell(self, content: Content, dialect: Dialect = Dialect.VLLM) -> Told:
        """One content's text and ids. Raises TemplateError."""
        if isinstance(content, TokenContent):
            return Told(None, array("I", content.token_ids))
        if isinstance(content, ChatContent):
            return self._tell_rendered(self._rendered(content, dialect))
        return Told(content.text, self.encode_text(content.text, content.add_special_tokens))

    def _tell_rendered(self, rendered: Rendered) -> Told:
        if not rendered.complete:
            return Told(rendered.text, self.encode_beginning(rendered.text, rendered.add_special_tokens), False)
        ids = self.encode_text(rendered.text, rendered.add_special_tokens)
        return Told(rendered.text + rendered.tail, ids + self.encode_text(rendered.tail, add_special_tokens=False))

    def encode_text(self, text: str, add_special_tokens: bool) -> "array[int]":
        """The ids of a text. Raises TemplateError for one that holds half of a surrogate pair."""
        with _errors_of_ours():
            return _ids(self._encoder.encode(text, add_special_tokens))

    def encode_beginning(self, text: str, add_special_tokens: bool) -> "array[int]":
        """The leading ids of every text that begins with `text`. Raises TemplateError as above."""
        with _errors_of_ours():
            return _ids(self._encoder.encode_prefix(text, add_special_tokens))

    def segment_stats(self) -> SegmentStats:
        """What is kept of encoded segments, and how often it was of use."""
        return self._encoder.stats()

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of `ids`; bytes that are no character become U+FFFD."""
        return self._encoder.decode(ids, skip_special_tokens)

    def render_chat(self, messages: list[JsonObject], tools: list[JsonObject] | None = None, **options: Any) -> str:
        """The text of a conversation; `options` are fields of ChatContent. Raises TemplateError."""
        return self.render(ChatContent(messages, tools, **options))

    def render(self, chat: ChatContent, dialect: Dialect = Dialect.VLLM) -> str:
        """The text that the engine makes of a conversation, as far as it can be told. Raises TemplateError."""
        rendered = self._rendered(chat, dialect)
        return rendered.text + rendered.tail

    def plain_chats(self, dialect: Dialect) -> PlainChats | None:
        """What tells chats of texts alone from their bytes; None where all have to be rendered."""
        return self._plain.get(dialect)

    def _plain_chats(self, clock: Clock, cache_bytes: int) -> dict[Dialect, PlainChats]:
        found: dict[Dialect, PlainChats] = {}
        for dialect in Dialect:
            template = self._templates.get(template_name(ChatContent([]), self._templates.keys(), dialect))
            if template is None or dialect in self._by_code:
                continue
            try:
                tracing = TracingTemplate(template.source, clock)
            except TemplateError:  # It holds the marks themselves; then its chats are rendered.
                continue
            found[dialect] = PlainChats(self._encoder, tracing, self._special_tokens, dialect, cache_bytes)
        return found

    def _rendered(self, chat: ChatContent, dialect: Dialect) -> Rendered:
        if dialect in self._by_code:
            raise TemplateError("the engine renders conversations of this model by code, not by a template")
        return render(chat, self._template(chat, dialect), self._special_tokens, dialect)

    def _template(self, chat: ChatContent, dialect: Dialect) -> ChatTemplate:
        """A client may name one of the model's templates, or write it out. One of its own is usually refused."""
        # SGLang does not look at it.
        own = None if dialect is Dialect.SGLANG else chat.chat_template
        name = template_name(chat, self._templates.keys(), dialect) if own is None else own
        name = self._template_names.get(name, name)
        if name in self._templates:
            return self._templates[name]
        if own is None:
            raise TemplateError("the model has no chat template")
        if not self._trusts_clients:
            raise TemplateError("the request brings a chat template of its own")
        return self._client_template(own)


@contextmanager
def _errors_of_ours() -> Iterator[None]:
    try:
        yield
    except UnicodeEncodeError as exc:
        raise TemplateError("the text holds half of a surrogate pair") from exc
    except ValueError as exc:
        raise TemplateError(f"the text cannot be encoded: {exc}"[:500]) from exc


def _ids(data: bytes) -> "array[int]":
    ids: array[int] = array("I")
    ids.frombytes(data)
    return ids
