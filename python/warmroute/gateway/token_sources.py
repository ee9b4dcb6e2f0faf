"""The sources of tokens that a router is configured to have."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from warmroute.gateway.options import ServeConfig, tokenizer_choice
from warmroute.gateway.served_models import ServedModels
from warmroute.gateway.tokenizer_check import TokenizerCheck
from warmroute.openai_api import Prompt
from warmroute.tokenizer import (
    Dialect,
    EncodePool,
    Engine,
    EngineTokenSource,
    LocalTokenizer,
    NoTokens,
    PerModelSource,
    PlainChatSource,
    TokenIds,
    Tokenizers,
    TokenSource,
    find_assets,
)
from warmroute.worker import Worker, WorkerTable


@dataclass(frozen=True, slots=True)
class Tokens:
    """Where tokens come from, and what is known of each model's tokenizer."""

    source: TokenSource
    plain: PlainChatSource
    check: TokenizerCheck


@asynccontextmanager
async def token_sources(
    config: ServeConfig, table: WorkerTable, session: aiohttp.ClientSession
) -> AsyncIterator[Tokens]:
    """Loads what tokenizers are named; raises ModelAssetError. Reading a large one takes seconds and holds the loop,
    as nothing else runs yet. `session` asks the workers, and is closed at the end."""
    tokenizers, auto = _named_tokenizers(config)
    served = ServedModels(table, time.monotonic, None if config.dialect == "auto" else Dialect(config.dialect))
    async with contextlib.AsyncExitStack() as stack:
        pool = stack.enter_context(EncodePool(config.tokenizer_threads))
        await stack.enter_async_context(session)
        engines = EngineTokenSource(session, served.engines, config.tokenize_timeout_s, time.monotonic)

        async def ask(worker: Worker, prompt: Prompt) -> TokenIds | NoTokens:
            asked = Engine(worker.spec.url.rstrip("/"), served.dialect_of(worker))
            only = EngineTokenSource(session, lambda _: (asked,), config.tokenize_timeout_s, time.monotonic)
            return await only.tokens(prompt)

        check = TokenizerCheck(
            table, tokenizers, served.dialect_of, ask, lambda root: _load(config, root, offline=True), auto
        )
        checking = asyncio.create_task(check.run(), name="check tokenizers")
        stack.push_async_callback(_ended, checking)
        source = PerModelSource(served.served, tokenizers, pool, engines, config.tokenize_timeout_s)
        plain = PlainChatSource(served.served, tokenizers, pool, config.tokenize_timeout_s)
        yield Tokens(source, plain, check)


def _named_tokenizers(config: ServeConfig) -> tuple[Tokenizers, bool]:
    choice = tokenizer_choice(config.tokenizer)
    loaded: dict[str, LocalTokenizer] = {}
    for source in {*choice.own.values(), *([choice.for_all] if choice.for_all else [])}:
        loaded[source] = _load(config, source)
    for_all = loaded[choice.for_all] if choice.for_all else None
    return Tokenizers(for_all, {model: loaded[source] for model, source in choice.own.items()}), choice.auto


def _load(config: ServeConfig, source: str, *, offline: bool = False) -> LocalTokenizer:
    template = None if config.chat_template is None else Path(config.chat_template)
    assets = find_assets(source, chat_template=template, offline=offline)
    return LocalTokenizer.load(
        assets,
        cache_bytes=config.tokenizer_cache_mb * 2**20,
        trust_request_chat_template=config.trust_request_chat_template,
    )


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
