"""What an engine is asked for the tokens of a prompt, and how its answer is read.

Sources: vLLM 0.32 `entrypoints/serve/tokenize` (`POST /tokenize`) and `entrypoints/scale_out/render` (`POST
PATH/render` with the body of PATH; 403 unless started with `--enable-scale-out`, or by `vllm launch render`); SGLang
0.5.23 `entrypoints/openai/serving_tokenize.py` (`POST /tokenize`; conversations are refused by older releases).
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec

from warmroute.openai_api import ChatContent, Content, Endpoint, JsonObject, Prompt, TextContent, TokenContent
from warmroute.tokenizer.dialect import Dialect
from warmroute.tokenizer.source import Original
from warmroute.tokenizer.text_size import media_parts, text_size
from warmroute.tokenizer.token_ids import TokenIds

TOKENIZE_PATH = "/tokenize"
RENDER_PATHS = {
    Endpoint.CHAT: "/v1/chat/completions/render",
    Endpoint.COMPLETIONS: "/v1/completions/render",
    Endpoint.RESPONSES: "/v1/responses/render",
    Endpoint.MESSAGES: "/v1/messages/render",
}
_TRANSLATED = (Endpoint.RESPONSES, Endpoint.MESSAGES)


@dataclass(frozen=True, slots=True)
class Question:
    """A POST to an engine; `read` makes tokens of the answer's body and raises msgspec.DecodeError."""

    path: str
    body: bytes
    read: Callable[[bytes], TokenIds]


def questions(prompt: Prompt, dialect: Dialect, original: Original | None) -> list[Question]:
    """What to ask, the most telling first; the next one where the engine has no such page."""
    asked = [_rendering(prompt, original), _tokenizing(prompt, dialect, original)]
    if dialect is not Dialect.VLLM or _is_plain(prompt):
        asked = asked[1:]
    return [question for question in asked if question is not None]


def _is_plain(prompt: Prompt) -> bool:
    """Whether `/tokenize` tells all of it: vLLM's answers at once and is always there, its render pages seldom are."""
    template = any(isinstance(content, ChatContent) and content.chat_template for content in prompt.contents)
    return prompt.exact and not template and prompt.endpoint not in _TRANSLATED


def _rendering(prompt: Prompt, original: Original | None) -> Question | None:
    path = RENDER_PATHS.get(prompt.endpoint)
    body = b"" if original is None else without_tensors(original.body)
    return Question(path, body, _read_rendered) if path is not None and body else None


def without_tensors(body: bytes) -> bytes:
    """A body for a render page, of an object that is not empty; b"" where it is none.

    Only the ids and where the images stand are of use, not the images' tensors, which would be megabytes.
    """
    body = body.rstrip()
    return body[:-1] + b',"mm_payload":"none"}' if body.endswith(b"}") else b""


def _tokenizing(prompt: Prompt, dialect: Dialect, original: Original | None) -> Question | None:
    content = prompt.contents[0] if prompt.contents else None
    if content is None or isinstance(content, TokenContent):
        return None  # Ids before texts in one list: no engine takes them.
    told = _told_part(content) if isinstance(content, ChatContent) else content
    if told is None:
        return None
    if dialect is Dialect.SGLANG and prompt.endpoint in _TRANSLATED:
        return None  # What it makes of them is not what it makes of the same words as a chat.
    complete = prompt.exact and told is content and not _is_bent_by_effort(content)

    def read(body: bytes) -> TokenIds:
        return _of_all(tokenized_ids(body), prompt.contents, complete)

    # SGLang renders a conversation as its own endpoint does if it gets that endpoint's fields, all of them.
    if dialect is Dialect.SGLANG and prompt.endpoint is Endpoint.CHAT and complete and original and original.body:
        return Question(TOKENIZE_PATH, original.body, read)
    return Question(TOKENIZE_PATH, tokenize_body(told, prompt.model, dialect), read)


def tokenize_body(content: Content, model: str | None, dialect: Dialect) -> bytes:
    """The body of `POST /tokenize` for a text or a conversation."""
    body = _chat_body(content, dialect) if isinstance(content, ChatContent) else _text_body(content)
    return msgspec.json.encode(body if model is None else {**body, "model": model})


def _text_body(content: Content) -> JsonObject:
    if not isinstance(content, TextContent):
        raise TypeError("token ids need no tokenizer")
    return {"prompt": content.text, "add_special_tokens": content.add_special_tokens}


def _chat_body(chat: ChatContent, dialect: Dialect) -> JsonObject:
    options = dict(chat.template_options)
    if chat.documents is not None:
        options["documents"] = chat.documents
    body: JsonObject = {
        "messages": [_with_reasoning(message) for message in chat.messages],
        "tools": chat.tools,
        "chat_template": chat.chat_template,
        "chat_template_kwargs": options or None,
        "continue_final_message": chat.continue_final_message or None,
    }
    given = {name: value for name, value in body.items() if value is not None}
    if dialect is Dialect.SGLANG and chat.add_generation_prompt:
        return given  # as for a chat completion
    return given | {"add_generation_prompt": chat.add_generation_prompt, "add_special_tokens": chat.add_special_tokens}


def _with_reasoning(message: JsonObject) -> JsonObject:
    """vLLM's chat endpoint knows thoughts by both of their names, its `/tokenize` by the newer one alone."""
    thought = message.get("reasoning_content")
    return message if thought is None else {"reasoning": thought, **message}


def _told_part(chat: ChatContent) -> ChatContent | None:
    """The conversation before its first message with an image or the like; None where that is the first one."""
    told = next((i for i, message in enumerate(chat.messages) if media_parts([ChatContent([message])])), None)
    if told is None:
        return chat
    if told == 0:
        return None
    return replace(chat, messages=chat.messages[:told], add_generation_prompt=False, continue_final_message=False)


def _is_bent_by_effort(content: Content) -> bool:
    """Whether the engine derives from the asked effort what `/tokenize` cannot be told."""
    return isinstance(content, ChatContent) and content.endpoint in _TRANSLATED and content.effort is not None


TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class _Tokenized(msgspec.Struct):
    tokens: list[TokenId]
    count: int | None = None


class _Place(msgspec.Struct):
    """Where the tokens of an image stand."""

    offset: Annotated[int, msgspec.Meta(ge=0)]


class _Features(msgspec.Struct):
    mm_placeholders: dict[str, list[_Place]] = {}


class _Rendered(msgspec.Struct):
    """The part of vLLM's GenerateRequest that counts."""

    token_ids: list[TokenId]
    features: _Features | None = None


_TOKENIZED = msgspec.json.Decoder(_Tokenized)
_RENDERED = msgspec.json.Decoder(_Rendered | list[_Rendered])


def tokenized_ids(body: bytes) -> "array[int]":
    """The ids in an answer of `/tokenize`. Raises msgspec.DecodeError."""
    answer = _TOKENIZED.decode(body)
    if answer.count is not None and answer.count != len(answer.tokens):
        raise msgspec.ValidationError(f"{answer.count} tokens are counted and {len(answer.tokens)} given")
    return array("I", answer.tokens)


def _of_all(ids: Sequence[int], contents: Sequence[Content], complete: bool) -> TokenIds:
    """Of a batch only the first content was asked for; the others are judged by their length."""
    first = text_size(contents[:1])
    return TokenIds(ids, round(len(ids) * text_size(contents) / max(first, 1)), complete)


def rendered_ids(body: bytes) -> list[list[int]]:
    """The ids of each prompt in an answer of a render page. Raises msgspec.DecodeError."""
    return [prompt.token_ids for prompt in _rendered_prompts(body)]


def _rendered_prompts(body: bytes) -> list[_Rendered]:
    answer = _RENDERED.decode(body)
    return answer if isinstance(answer, list) else [answer]


def _read_rendered(body: bytes) -> TokenIds:
    """Up to the first image: what stands for it is the same for every image."""
    prompts = _rendered_prompts(body)
    if not prompts:
        raise msgspec.ValidationError("nothing was rendered")
    ids, features = prompts[0].token_ids, prompts[0].features
    places = (
        [] if features is None else [place.offset for found in features.mm_placeholders.values() for place in found]
    )
    total = sum(len(prompt.token_ids) for prompt in prompts)
    return TokenIds(array("I", ids[: min(places)] if places else ids), total, complete=not places)
