"""Token sources: in this process, and over a socket."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from warmroute.openai_api import ChatContent, Content, Endpoint, Prompt, TextContent, TokenContent, parse_prompt
from warmroute.tokenizer import EngineTokenSource, LocalTokenizer, LocalTokenSource, TokenIds, TokenSource

TINY = LocalTokenizer.load("warmroute-tiny")
HELLO = {"role": "user", "content": "Hello"}
NEVER = "{{ raise_exception('never') }}"


class Watched(LocalTokenizer):
    """Remembers in which thread it worked; a closed `gate` holds it there."""

    def watch(self) -> None:
        self.threads: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, prompt: Prompt) -> TokenIds:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(30)
        return super().encode(prompt)


@pytest.fixture
def watched() -> Watched:
    tokenizer = Watched.load("warmroute-tiny")
    tokenizer.watch()
    return tokenizer


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def asking(*contents: Content) -> Prompt:
    return Prompt(Endpoint.COMPLETIONS, "tiny", contents=contents)


def chatting(text: str) -> Prompt:
    return asking(ChatContent([{"role": "user", "content": text}]))


async def test_small_prompts_stay_and_large_ones_leave_the_loop(watched: Watched, executor: ThreadPoolExecutor) -> None:
    source: TokenSource = LocalTokenSource(watched, executor)
    for prompt in (asking(TextContent("a b")), chatting("a b")):
        assert await source.tokens(prompt) == TINY.encode(prompt)
    assert watched.threads == [threading.get_ident()] * 2
    for prompt in (asking(TextContent("a b " * 1000)), chatting("a b " * 1000)):
        assert await source.tokens(prompt) == TINY.encode(prompt)
    assert threading.get_ident() not in watched.threads[2:]


async def test_many_tools_or_parts_make_a_prompt_large(watched: Watched, executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(watched, executor)
    parts = [{"type": "text", "text": "a" * 500}, "b" * 1600]
    tools = [{"type": "function", "function": {"name": "f"}}] * 5
    for chat in (ChatContent([{"role": "user", "content": parts}]), ChatContent([HELLO], tools)):
        assert await source.tokens(asking(chat)) == TINY.encode(asking(chat))
    assert threading.get_ident() not in watched.threads


async def test_the_loop_runs_on_while_a_large_prompt_is_encoded(executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(TINY, executor)
    work = asyncio.ensure_future(source.tokens(asking(TextContent("some words to encode " * 50_000))))
    turns = 0
    while not work.done():
        await asyncio.sleep(0.001)
        turns += 1
    tokens = await work
    assert tokens is not None
    assert tokens.total > 100_000
    # A million characters take about 0.3 s; a blocked loop would turn once or twice.
    assert turns > 10


async def test_ids_need_no_tokenizer(watched: Watched, executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(watched, executor)
    batch = asking(TokenContent((5, 6)), TokenContent((7,)))
    assert await source.tokens(batch) == TokenIds([5, 6], 3)
    assert watched.threads == []


async def test_what_cannot_be_told_is_none_and_counted(executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(TINY, executor)
    assert await source.tokens(Prompt(Endpoint.OTHER)) is None
    assert source.failures == 0
    assert await source.tokens(asking(ChatContent([HELLO], chat_template=NEVER))) is None
    assert await source.tokens(asking(ChatContent([{"role": "user", "content": "x" * 5000}, {}]))) is None
    assert (source.failures, source.shed) == (2, 0)


async def test_beyond_the_backlog_prompts_are_not_tried(watched: Watched, executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(watched, executor, backlog=3)
    watched.gate.clear()
    large = asking(TextContent("a b " * 1000))
    waiting = [asyncio.ensure_future(source.tokens(large)) for _ in range(3)]
    await asyncio.sleep(0)
    assert await source.tokens(large) is None
    assert source.shed == 1
    watched.gate.set()
    assert await asyncio.gather(*waiting) == [TINY.encode(large)] * 3
    assert await source.tokens(large) == TINY.encode(large)


async def test_a_cancelled_prompt_gives_its_place_back(watched: Watched, executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(watched, executor, backlog=1)
    watched.gate.clear()
    large = asking(TextContent("a b " * 1000))
    waiting = asyncio.ensure_future(source.tokens(large))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    watched.gate.set()
    assert await source.tokens(large) == TINY.encode(large)


async def test_a_text_longer_than_any_context_is_not_tried(watched: Watched, executor: ThreadPoolExecutor) -> None:
    source = LocalTokenSource(watched, executor)
    assert await source.tokens(asking(TextContent("a" * 16_000_001))) is None
    assert (source.shed, watched.threads) == (1, [])


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def engine(handler: Handler) -> AsyncIterator[str]:
    """A server on loopback that answers /tokenize with `handler`."""
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/tokenize", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking_engine(handler: Handler, timeout_s: float = 5) -> AsyncIterator[EngineTokenSource]:
    async with engine(handler) as url, aiohttp.ClientSession() as session:
        yield EngineTokenSource(session, lambda _: url + "/", timeout_s)


async def tokenize(request: web.Request) -> web.Response:
    """What vLLM's /tokenize does, by way of the same reading of the same fields."""
    body = await request.json()
    assert body["model"] == "tiny"
    endpoint = Endpoint.CHAT if "messages" in body else Endpoint.COMPLETIONS
    tokens = TINY.encode(parse_prompt(endpoint, json.dumps(body).encode()))
    return web.json_response({"count": tokens.total, "max_model_len": 1, "tokens": tokens.ids, "token_strs": None})


@pytest.mark.parametrize(
    "content",
    [
        TextContent("Hello"),
        TextContent("Hello", add_special_tokens=False),
        ChatContent([HELLO]),
        ChatContent([HELLO], add_generation_prompt=False),
        ChatContent(
            [HELLO, {"role": "assistant", "content": "I"}], continue_final_message=True, add_generation_prompt=False
        ),
        ChatContent([HELLO], tools=[{"type": "function", "function": {"name": "f"}}], documents=[{"title": "x"}]),
        ChatContent([HELLO], template_options={"enable_thinking": False}),
    ],
)
async def test_an_engine_is_asked_for_what_the_local_tokenizer_makes(content: Content) -> None:
    async with asking_engine(tokenize) as source:
        assert await source.tokens(asking(content)) == TINY.encode(asking(content))
        assert source.failures == 0


async def test_of_a_batch_one_is_asked_for_and_the_rest_is_judged_by_length() -> None:
    asked: list[Any] = []

    async def remember(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return await tokenize(request)

    async with asking_engine(remember) as source:
        tokens = await source.tokens(asking(TextContent("one two"), TextContent("one two one two"), TextContent("")))
    first = TINY.encode_text("one two", add_special_tokens=True)
    assert tokens == TokenIds(first, round(len(first) * 22 / 7))
    assert len(asked) == 1


async def test_ids_are_not_sent_to_an_engine() -> None:
    async with aiohttp.ClientSession() as session:
        source = EngineTokenSource(session, lambda _: None, 1)
        assert await source.tokens(asking(TokenContent((1, 2)))) == TokenIds([1, 2], 2)
        assert await source.tokens(asking(TextContent("x"))) is None
        assert await source.tokens(Prompt(Endpoint.OTHER)) is None
        assert source.failures == 0


async def hang(request: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def drop(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def answering(status: int, body: bytes) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    return answer


@pytest.mark.parametrize(
    "handler",
    [
        hang,
        drop,
        answering(500, b"{}"),
        answering(404, b'{"tokens": [1]}'),
        answering(200, b""),
        answering(200, b"{}"),
        answering(200, b'{"tokens": "x"}'),
        answering(200, b'{"tokens": [1, null]}'),
        answering(200, b'{"tokens": [1'),
    ],
    ids=["hang", "drop", "500", "404", "empty", "no tokens", "text", "null", "cut"],
)
async def test_an_engine_that_fails_is_none_and_counted(handler: Handler) -> None:
    async with asking_engine(handler, timeout_s=0.3) as source:
        assert await source.tokens(asking(TextContent("x"))) is None
        assert source.failures == 1


async def test_an_engine_that_is_not_there_is_none_and_counted() -> None:
    async with engine(tokenize) as url:
        pass
    async with aiohttp.ClientSession() as session:
        source = EngineTokenSource(session, lambda _: url, 1)
        assert await source.tokens(asking(TextContent("x"))) is None
        assert source.failures == 1
