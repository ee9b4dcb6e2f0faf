"""The engines' own pages as a source of tokens, over real sockets."""

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from warmroute.openai_api import ChatContent, Content, Endpoint, Prompt, TextContent, TokenContent, parse_prompt
from warmroute.tokenizer import (
    Dialect,
    Engine,
    EngineTokenSource,
    LocalTokenizer,
    NoTokens,
    Original,
    TokenIds,
)

TINY = LocalTokenizer.load("warmroute-tiny")
HELLO = {"role": "user", "content": "Hello"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asking(*contents: Content) -> Prompt:
    return Prompt(Endpoint.COMPLETIONS, "tiny", contents=contents)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def engine(handler: Handler, **pages: Handler) -> AsyncIterator[str]:
    """A server on loopback that answers /tokenize with `handler`, and a chat's render page where one is given."""
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/tokenize", handler)
    for name, page in pages.items():
        app.router.add_post(f"/v1/{name.replace('_', '/')}/render", page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking_engine(
    handler: Handler,
    timeout_s: float = 5,
    dialect: Dialect = Dialect.VLLM,
    clock: Callable[[], float] | None = None,
    **pages: Handler,
) -> AsyncIterator[EngineTokenSource]:
    async with engine(handler, **pages) as url, aiohttp.ClientSession() as session:
        yield EngineTokenSource(session, lambda _: [Engine(url, dialect)], timeout_s, clock or Clock())


async def tokenize(request: web.Request) -> web.Response:
    """What vLLM's /tokenize does, by way of the same reading of the same fields."""
    body = await request.json()
    assert body["model"] == "tiny"
    endpoint = Endpoint.CHAT if "messages" in body else Endpoint.COMPLETIONS
    tokens = TINY.encode(parse_prompt(endpoint, json.dumps(body).encode()))
    ids = list(tokens.ids)
    return web.json_response({"count": len(ids), "max_model_len": 1, "tokens": ids, "token_strs": None})


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
        source = EngineTokenSource(session, lambda _: (), 1, Clock())
        assert await source.tokens(asking(TokenContent(array("I", (1, 2))))) == TokenIds(array("I", (1, 2)), 2)
        assert await source.tokens(asking(TextContent("x"))) is NoTokens.NO_WORKER


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


FAILURES: dict[str, Handler] = {
    "hang": hang,
    "drop": drop,
    "500": answering(500, b"{}"),
    "empty": answering(200, b""),
    "no tokens": answering(200, b"{}"),
    "text": answering(200, b'{"tokens": "x"}'),
    "null": answering(200, b'{"tokens": [1, null]}'),
    "negative": answering(200, b'{"tokens": [1, -1]}'),
    "too large": answering(200, b'{"tokens": [1, 4294967296]}'),
    "miscounted": answering(200, b'{"tokens": [1], "count": 2}'),
    "cut": answering(200, b'{"tokens": [1'),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_an_engine_that_fails_is_told_as_such(name: str) -> None:
    async with asking_engine(FAILURES[name], timeout_s=0.3) as source:
        assert await source.tokens(asking(TextContent("x"))) is NoTokens.ENGINE_FAILED


async def test_an_engine_that_is_not_there_has_failed() -> None:
    async with engine(tokenize) as url:
        pass
    async with aiohttp.ClientSession() as session:
        source = EngineTokenSource(session, lambda _: [Engine(url)], 1, Clock())
        assert await source.tokens(asking(TextContent("x"))) is NoTokens.ENGINE_FAILED


async def test_when_one_engine_fails_the_next_is_asked() -> None:
    async with engine(drop) as broken, engine(tokenize) as well, aiohttp.ClientSession() as session:
        source = EngineTokenSource(session, lambda _: [Engine(broken), Engine(well)], 1, Clock())
        assert isinstance(await source.tokens(asking(TextContent("x"))), TokenIds)


async def test_an_engine_that_fails_in_a_row_is_left_alone_and_tried_again_by_one() -> None:
    asked = 0
    fails = True

    async def flaky(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=500) if fails else await tokenize(request)

    clock = Clock()
    async with asking_engine(flaky, clock=clock) as source:
        told = [await source.tokens(asking(TextContent("x"))) for _ in range(5)]
        assert told == [NoTokens.ENGINE_FAILED] * 3 + [NoTokens.ENGINE_AVOIDED] * 2
        assert asked == 3
        clock.now += 2.0
        assert await source.tokens(asking(TextContent("x"))) is NoTokens.ENGINE_FAILED
        clock.now += 2.0
        assert await source.tokens(asking(TextContent("x"))) is NoTokens.ENGINE_AVOIDED, "the pause has doubled"
        clock.now += 2.0
        fails = False
        told = await asyncio.gather(*(source.tokens(asking(TextContent("x"))) for _ in range(3)))
        assert [isinstance(each, TokenIds) for each in told].count(True) == 1, "one question tries it"
        assert isinstance(await source.tokens(asking(TextContent("x"))), TokenIds)
        assert asked == 6


async def test_a_page_that_an_engine_does_not_have_is_not_asked_for_again_for_a_while() -> None:
    asked = 0

    async def nothing(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.json_response({"detail": "Not Found"}, status=404)

    clock = Clock()
    async with asking_engine(nothing, clock=clock) as source:
        for _ in range(5):
            assert await source.tokens(asking(TextContent("x"))) is NoTokens.NO_TOKENIZER
        assert asked == 1
        clock.now += 301.0
        assert await source.tokens(asking(TextContent("x"))) is NoTokens.NO_TOKENIZER
        assert asked == 2


@pytest.mark.parametrize(
    ("status", "body"), [(400, b'{"error": {}}'), (404, b'{"error": {"message": "no such model"}}'), (401, b"{}")]
)
async def test_a_refusal_is_no_failure_of_the_engine(status: int, body: bytes) -> None:
    async with asking_engine(answering(status, body)) as source:
        for _ in range(5):
            assert await source.tokens(asking(TextContent("x"))) is NoTokens.ENGINE_REFUSED


async def test_questions_beyond_the_limit_wait_and_cost_nothing_when_given_up() -> None:
    asked, gate = 0, asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await gate.wait()
        return await tokenize(request)

    async with engine(slow) as url, aiohttp.ClientSession() as session:
        source = EngineTokenSource(session, lambda _: [Engine(url)], 5, Clock(), limit=2)
        waiting = [asyncio.ensure_future(source.tokens(asking(TextContent("x")))) for _ in range(4)]
        while asked < 2:
            await asyncio.sleep(0.005)
        waiting[3].cancel()
        await asyncio.sleep(0.05)
        assert asked == 2
        gate.set()
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(each, TokenIds) for each in told] == [True, True, True, False]
        assert asked == 3


def a_chat(*parts: Any, **fields: Any) -> tuple[Prompt, Original]:
    body = {"model": "tiny", "messages": [{"role": "system", "content": "s" * 40}, {"role": "user", "content": parts}]}
    raw = json.dumps(body | fields).encode()
    return parse_prompt(Endpoint.CHAT, raw), Original(raw, [("authorization", "Bearer k")])


async def test_what_cannot_be_told_here_is_rendered_by_the_engine_from_the_clients_own_body() -> None:
    asked: list[Any] = []

    async def render(request: web.Request) -> web.Response:
        asked.append((request.headers.get("authorization"), await request.json()))
        places = {"image": [{"offset": 3, "length": 2}]}
        return web.json_response({"token_ids": [9, 8, 7, 0, 0, 6], "features": {"mm_placeholders": places}})

    prompt, original = a_chat(IMAGE, {"type": "text", "text": "what is it?"})
    async with asking_engine(tokenize, chat_completions=render) as source:
        assert await source.tokens(prompt, original) == TokenIds(array("I", (9, 8, 7)), 6, complete=False)
    assert asked == [("Bearer k", json.loads(original.body) | {"mm_payload": "none"})]


async def test_an_engine_without_render_pages_is_asked_for_the_text_before_the_first_image() -> None:
    asked: list[str] = []

    async def switched_off(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"error": {"message": "restart with --enable-scale-out"}}, status=403)

    prompt, original = a_chat(IMAGE)
    system = ChatContent([{"role": "system", "content": "s" * 40}], add_generation_prompt=False)
    async with asking_engine(tokenize, chat_completions=switched_off) as source:
        for _ in range(2):
            told = await source.tokens(prompt, original)
            assert isinstance(told, TokenIds)
            assert (list(told.ids), told.complete) == (list(TINY.encode(asking(system)).ids), False)
    assert asked == ["/v1/chat/completions/render"], "what was switched off is not asked for again"


async def test_a_completion_with_a_batch_is_rendered_as_a_list() -> None:
    async def render(request: web.Request) -> web.Response:
        return web.json_response([{"token_ids": [1, 2]}, {"token_ids": [3]}])

    raw = b'{"model": "tiny", "prompt": ["a", "b"]}'
    prompt = Prompt(Endpoint.COMPLETIONS, "tiny", contents=(TextContent("a"), TextContent("b")), exact=False)
    async with asking_engine(tokenize, completions=render) as source:
        assert await source.tokens(prompt, Original(raw)) == TokenIds(array("I", (1, 2)), 3)


async def test_sglang_gets_the_clients_own_conversation_and_a_text_as_vllm_does() -> None:
    asked: list[Any] = []

    async def remember(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({"tokens": [1], "count": 1})

    prompt, original = a_chat({"type": "text", "text": "hi"}, reasoning_effort="low")
    async with asking_engine(remember, dialect=Dialect.SGLANG) as source:
        assert await source.tokens(prompt, original) == TokenIds(array("I", (1,)), 1)
        await source.tokens(asking(TextContent("x")))
        await source.tokens(asking(ChatContent([HELLO])))
    assert asked == [
        json.loads(original.body),
        {"prompt": "x", "add_special_tokens": True, "model": "tiny"},
        {"messages": [HELLO], "model": "tiny"},
    ]
