"""A tokenizer in this process: chat template, then text to ids."""

from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from warmroute._native import Encoder, SegmentStats
from warmroute.errors import ModelAssetError, TemplateError
from warmroute.openai_api import ChatContent, Content, JsonObject, Prompt, TokenContent
from warmroute.tokenizer.assets import DEFAULT_TEMPLATE, TokenizerAssets, find_assets
from warmroute.tokenizer.chat_template import ChatTemplate, Clock
from warmroute.tokenizer.conversation import engine_messages, engine_tools
from warmroute.tokenizer.token_ids import TokenIds

DEFAULT_CACHE_BYTES = 128 * 2**20
"""Some ten million tokens of text: a hundred conversations of 100,000 each."""


class LocalTokenizer:
    """Renders and encodes prompts as the engine that serves the model does. Safe from any thread.

    What was encoded before is not encoded again: segments of text and their ids are kept, see `crates/tokens`.
    """

    def __init__(self, encoder: Encoder, assets: TokenizerAssets, clock: Clock = datetime.now) -> None:
        """`clock` is what templates read that write the date. Raises TemplateError for an unreadable template."""
        self._encoder = encoder
        self._special_tokens = assets.special_tokens
        self._templates = {name: ChatTemplate(text, clock) for name, text in assets.templates.items()}
        self._template_names = {text: name for name, text in assets.templates.items()}

    @classmethod
    def load(cls, source: str | Path, clock: Clock = datetime.now, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> Self:
        """From a folder, the name of a packaged model, or a hub id; keeps `cache_bytes` of encoded segments.

        Raises ModelAssetError.
        """
        assets = find_assets(source)
        file = assets.folder / "tokenizer.json"
        try:
            return cls(Encoder(file.read_bytes(), cache_bytes), assets, clock)
        except TemplateError as exc:
            raise ModelAssetError(f"{assets.folder}: {exc}") from exc
        except (OSError, ValueError) as exc:
            raise ModelAssetError(f"{file} cannot be read ({exc}); fetch it again") from exc

    @property
    def vocab_size(self) -> int:
        """Tokens in the vocabulary, special ones included."""
        return self._encoder.vocab_size

    def encode(self, prompt: Prompt) -> TokenIds:
        """The ids of the first content and the number over all. Raises TemplateError."""
        lists = [self._encode(content) for content in prompt.contents]
        return TokenIds(lists[0] if lists else array("I"), sum(map(len, lists)))

    def encode_text(self, text: str, add_special_tokens: bool) -> "array[int]":
        """The ids of a text. Raises TemplateError for one that holds half of a surrogate pair."""
        try:
            return _ids(self._encoder.encode(text, add_special_tokens))
        except UnicodeEncodeError as exc:
            raise TemplateError("the text holds half of a surrogate pair") from exc
        except ValueError as exc:
            raise TemplateError(f"the text cannot be encoded: {exc}"[:500]) from exc

    def segment_stats(self) -> SegmentStats:
        """What is kept of encoded segments, and how often it was of use."""
        return self._encoder.stats()

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of `ids`; bytes that are no character become U+FFFD."""
        return self._encoder.decode(ids, skip_special_tokens)

    def render_chat(self, messages: list[JsonObject], tools: list[JsonObject] | None = None, **options: Any) -> str:
        """The text of a conversation; `options` are fields of ChatContent. Raises TemplateError."""
        return self.render(ChatContent(messages, tools, **options))

    def render(self, chat: ChatContent) -> str:
        """The text that the engine makes of a conversation. Raises TemplateError."""
        template = self._template(chat)
        messages = engine_messages(chat.messages, template.takes_parts, template.knows_developer)
        variables = self._variables(chat)
        if chat.continue_final_message:
            return template.render_open(messages, variables)
        return template.render(messages, variables)

    def _encode(self, content: Content) -> "array[int]":
        if isinstance(content, TokenContent):
            return array("I", content.token_ids)
        if isinstance(content, ChatContent):
            return self.encode_text(self.render(content), content.add_special_tokens)
        return self.encode_text(content.text, content.add_special_tokens)

    def _template(self, chat: ChatContent) -> ChatTemplate:
        """A client may name one of the model's templates. One of its own is refused, as engines refuse it."""
        name = chat.chat_template
        if name is not None and name not in self._templates:
            if name not in self._template_names:
                raise TemplateError("the request brings a chat template of its own")
            name = self._template_names[name]
        if name is None:
            name = "tool_use" if chat.tools is not None and "tool_use" in self._templates else DEFAULT_TEMPLATE
        template = self._templates.get(name)
        if template is None:
            raise TemplateError("the model has no chat template")
        return template

    def _variables(self, chat: ChatContent) -> Mapping[str, Any]:
        options = {**self._special_tokens, "documents": None, **chat.template_options}
        if chat.documents is not None:
            options["documents"] = chat.documents
        cue = chat.add_generation_prompt and not chat.continue_final_message
        return options | {"tools": engine_tools(chat.tools), "add_generation_prompt": cue}


def _ids(data: bytes) -> "array[int]":
    ids: array[int] = array("I")
    ids.frombytes(data)
    return ids
