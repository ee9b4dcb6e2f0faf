"""Where the router gets the tokens of a prompt from."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

import aiohttp
import msgspec

from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Content, JsonObject, Prompt, TextContent
from warmroute.tokenizer.local import LocalTokenizer
from warmroute.tokenizer.token_ids import TokenIds, given_ids

# 2,000 characters take 0.5 ms to encode (2 shared cores); the hop to a thread and back would cost a third of that.
_INLINE_CHARACTERS = 2_000
# No engine reads more: 16 million characters are some 4 million tokens.
_LONGEST_TEXT = 16_000_000
# A definition of a tool, for the purpose of telling small prompts from large ones.
_CHARACTERS_PER_TOOL = 500


PickUrl = Callable[[str | None], str | None]


class TokenSource(Protocol):
    """Tells the tokens of a prompt."""

    async def tokens(self, prompt: Prompt) -> TokenIds | None:
        """The tokens of `prompt`; None if they cannot be told, so that the request is routed on load alone."""
        ...


class LocalTokenSource:
    """A tokenizer in this process: small prompts on the loop, larger ones in a thread.

    `failures` counts the prompts that could not be told; `shed` those that were not tried, for their length or because
    `backlog` others were waiting already.
    """

    def __init__(self, tokenizer: LocalTokenizer, executor: Executor, backlog: int = 256) -> None:
        """The workers of `executor` bound how many prompts are encoded at once."""
        self._tokenizer = tokenizer
        self._executor = executor
        self._backlog = backlog
        self._waiting = 0
        self.failures = 0
        self.shed = 0

    async def tokens(self, prompt: Prompt) -> TokenIds | None:
        """See TokenSource."""
        if not prompt.contents:
            return None
        given = given_ids(prompt.contents)
        if given is not None:
            return given
        try:
            return await self._encode(prompt, text_size(prompt.contents))
        except TemplateError:
            self.failures += 1
            return None

    async def _encode(self, prompt: Prompt, size: int) -> TokenIds | None:
        if size <= _INLINE_CHARACTERS:
            return self._tokenizer.encode(prompt)
        if size > _LONGEST_TEXT or self._waiting >= self._backlog:
            self.shed += 1
            return None
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, self._tokenizer.encode, prompt)
        finally:
            self._waiting -= 1


class EngineTokenSource:
    """The engine's own `POST /tokenize` (vLLM's), for models whose tokenizer is not at hand. `failures` as above."""

    def __init__(self, session: aiohttp.ClientSession, pick_url: PickUrl, timeout_s: float) -> None:
        """`pick_url` gives the base address of an engine that serves a model (None: any), or None if there is none."""
        self._session = session
        self._pick_url = pick_url
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self.failures = 0

    async def tokens(self, prompt: Prompt) -> TokenIds | None:
        """See TokenSource. Of a batch only the first content is asked for; the others are judged by their length."""
        if not prompt.contents:
            return None
        given = given_ids(prompt.contents)
        url = self._pick_url(prompt.model) if given is None else None
        if url is None:
            return given
        try:
            ids = await self._ask(url, tokenize_body(prompt))
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
            self.failures += 1
            return None
        first = text_size(prompt.contents[:1])
        return TokenIds(ids, round(len(ids) * text_size(prompt.contents) / max(first, 1)))

    async def _ask(self, url: str, body: bytes) -> list[int]:
        headers = {"content-type": "application/json"}
        async with self._session.post(
            f"{url.rstrip('/')}/tokenize", data=body, headers=headers, timeout=self._timeout
        ) as answer:
            answer.raise_for_status()
            return _TOKENIZED.decode(await answer.read()).tokens


class _Tokenized(msgspec.Struct):
    """The part of vLLM's answer that counts."""

    tokens: list[int]


_TOKENIZED = msgspec.json.Decoder(_Tokenized)


def tokenize_body(prompt: Prompt) -> bytes:
    """The body of vLLM's `POST /tokenize` for the first content of `prompt`, which is a text or a conversation."""
    content = prompt.contents[0]
    body = _chat_body(content) if isinstance(content, ChatContent) else _text_body(content)
    if prompt.model is not None:
        body["model"] = prompt.model
    return msgspec.json.encode(body)


def _text_body(content: Content) -> JsonObject:
    if not isinstance(content, TextContent):
        raise TypeError("token ids need no tokenizer")
    return {"prompt": content.text, "add_special_tokens": content.add_special_tokens}


def _chat_body(chat: ChatContent) -> JsonObject:
    options = dict(chat.template_options)
    if chat.documents is not None:
        options["documents"] = chat.documents
    body: JsonObject = {
        "messages": chat.messages,
        "tools": chat.tools,
        "chat_template": chat.chat_template,
        "chat_template_kwargs": options or None,
        "continue_final_message": chat.continue_final_message or None,
    }
    given = {name: value for name, value in body.items() if value is not None}
    return given | {"add_generation_prompt": chat.add_generation_prompt, "add_special_tokens": chat.add_special_tokens}


def text_size(contents: Sequence[Content]) -> int:
    """About how many characters there are to encode."""
    return sum(_size(content) for content in contents)


def _size(content: Content) -> int:
    if isinstance(content, TextContent):
        return len(content.text)
    if isinstance(content, ChatContent):
        tools = _CHARACTERS_PER_TOOL * len(content.tools or [])
        return tools + sum(_message_size(message) for message in content.messages)
    return len(content.token_ids)


def _message_size(message: JsonObject) -> int:
    parts = message.get("content")
    if isinstance(parts, str):
        return len(parts)
    texts = (part if isinstance(part, str) else part.get("text") for part in parts or [])
    return sum(len(text) for text in texts if isinstance(text, str))
