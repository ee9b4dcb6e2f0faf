"""The tokens of a prompt, whichever model it asks for: from a tokenizer here, else from an engine, by a deadline."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from warmroute.openai_api import ChatContent, Prompt
from warmroute.tokenizer.dialect import Dialect
from warmroute.tokenizer.encode_pool import EncodePool
from warmroute.tokenizer.local import LocalTokenizer
from warmroute.tokenizer.local_source import LocalTokenSource
from warmroute.tokenizer.source import Original, TokenSource
from warmroute.tokenizer.token_ids import NoTokens, TokenIds, given_ids

# What an engine may still be able to tell: it may be trusted with templates of clients, and its own may differ.
_FOR_THE_ENGINE = (NoTokens.TEMPLATE, NoTokens.CLIENT_TEMPLATE)


@dataclass(frozen=True, slots=True)
class Served:
    """Who serves a model, as far as its tokens go.

    names: by which a tokenizer is looked up: the model's own, then, for an adapter, those of the models it adapts.
    dialect: whose rendering is followed; that of most of the workers.
    mixed: engines of both kinds serve it, so a conversation is not the same text on all of them.
    """

    names: tuple[str, ...]
    dialect: Dialect = Dialect.VLLM
    mixed: bool = False


ServedBy = Callable[[str | None], Served | None]
"""Who serves a model (None: any); None where nobody does."""


class Tokenizers:
    """The tokenizer of each model: its own, else the one for all models, else none."""

    def __init__(self, for_all: LocalTokenizer | None = None, own: Mapping[str, LocalTokenizer] | None = None) -> None:
        self._for_all = for_all
        self._own = dict(own or {})

    def of(self, names: Sequence[str]) -> LocalTokenizer | None:
        """The tokenizer of the first of `names` that has one of its own."""
        own = self._own
        for name in names if own else ():
            if name in own:
                return own[name]
        return self._for_all

    def each(self) -> list[tuple[str, LocalTokenizer]]:
        """Every tokenizer once, with a model that it is for; '' where it is for all."""
        for_all = [("", self._for_all)] if self._for_all is not None else []
        distinct = {id(tokenizer): (name, tokenizer) for name, tokenizer in [*self._own.items(), *for_all]}
        return list(distinct.values())

    def set(self, name: str, tokenizer: LocalTokenizer) -> None:
        """Give a model a tokenizer of its own."""
        self._own[name] = tokenizer


class PerModelSource:
    """A TokenSource over all models; `timeout_s` covers waiting for a thread, encoding and asking."""

    def __init__(
        self, served_by: ServedBy, tokenizers: Tokenizers, pool: EncodePool, engines: TokenSource, timeout_s: float
    ) -> None:
        self._served_by = served_by
        self._tokenizers = tokenizers
        self._pool = pool
        self._engines = engines
        self._timeout_s = timeout_s

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        """See TokenSource. A model that nobody serves costs nothing."""
        given = given_ids(prompt.contents)
        if given is not None:
            return given
        served = self._served_by(prompt.model)
        if served is None:
            return NoTokens.NO_WORKER
        try:
            async with asyncio.timeout(self._timeout_s):
                told = await self._tell(served, prompt, original)
        except TimeoutError:
            return NoTokens.DEADLINE
        if isinstance(told, TokenIds) and served.mixed and _is_conversation(prompt):
            return replace(told, complete=False, why=NoTokens.MIXED_ENGINES)
        return told

    async def _tell(self, served: Served, prompt: Prompt, original: Original | None) -> TokenIds | NoTokens:
        tokenizer = self._tokenizers.of(served.names)
        if tokenizer is None:
            return await self._engines.tokens(prompt, original)
        told = await LocalTokenSource(tokenizer, self._pool, served.dialect).tokens(prompt, original)
        if told in _FOR_THE_ENGINE:
            asked = await self._engines.tokens(prompt, original)
            return asked if isinstance(asked, TokenIds) else told
        return told


def _is_conversation(prompt: Prompt) -> bool:
    return any(isinstance(content, ChatContent) for content in prompt.contents)
