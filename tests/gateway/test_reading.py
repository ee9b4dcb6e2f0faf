"""What the router is asked, from what came in and what a source of tokens made of it."""

import asyncio
import json
import random
import threading
from array import array

import pytest

from warmroute._native import Arrival
from warmroute.gateway.reading import SESSION_HEADERS, Reader
from warmroute.openai_api import Endpoint, Match, Prompt
from warmroute.openai_api.prompt import MEDIA_TOKENS
from warmroute.router import RouteRequest
from warmroute.tokenizer import (
    EncodePool,
    LocalTokenizer,
    NoTokens,
    Original,
    PlainChatSource,
    Served,
    TokenIds,
    Tokenizers,
)

IDS = array("I", range(100))
HELLO = {"role": "user", "content": "hello " * 100}
IMAGES = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://h/x.png"}}] * 3}


class Source:
    """Answers one thing, and remembers what it was asked with."""

    def __init__(self, answer: TokenIds | NoTokens) -> None:
        self.answer = answer
        self.originals: list[Original | None] = []

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        self.originals.append(original)
        return self.answer


def chat(*messages: object, **fields: object) -> bytes:
    return json.dumps({"model": "m", "messages": messages} | fields).encode()


async def read(answer: TokenIds | NoTokens, body: bytes, *headers: tuple[str, str]) -> RouteRequest:
    return await reader(Source(answer)).read(arrival(body, *headers), Endpoint.CHAT)


def arrival(body: bytes, *headers: tuple[str, str]) -> Arrival:
    return Arrival(1, "POST", "/v1/chat/completions", "", headers, body, "127.0.0.1:1", 0.0)


def reader(source: Source) -> Reader:
    return Reader(source, None, random.Random(0))


@pytest.mark.parametrize(
    ("answer", "messages", "match", "untold"),
    [
        (TokenIds(IDS, 100), [HELLO], Match.EXACT, None),
        (TokenIds(IDS, 100, complete=False), [HELLO, IMAGES], Match.TEXT_PREFIX, "multimodal"),
        (TokenIds(IDS[:0], 0, complete=False), [IMAGES], Match.NONE, "multimodal"),
        (TokenIds(IDS, 100, False, NoTokens.MIXED_ENGINES), [HELLO], Match.TEXT_PREFIX, "mixed-engines"),
        (TokenIds(IDS, 100, complete=False), [HELLO], Match.TEXT_PREFIX, "rendering"),
        (NoTokens.DEADLINE, [HELLO], Match.NONE, "deadline"),
        (NoTokens.TEMPLATE, [HELLO, IMAGES], Match.NONE, "template"),
    ],
)
async def test_how_well_it_is_known_and_why_not_better(
    answer: TokenIds | NoTokens, messages: list[object], match: Match, untold: str | None
) -> None:
    request = await read(answer, chat(*messages))
    assert (request.match, request.untold) == (match, untold)
    assert request.prompt_tokens >= 100


async def test_what_is_booked() -> None:
    body = chat(HELLO)
    assert (await read(TokenIds(IDS, 100), body)).prompt_tokens == 100
    assert (await read(NoTokens.DEADLINE, body)).prompt_tokens == round(len(body) / 4)
    assert (await read(TokenIds(IDS, 100, complete=False), body)).prompt_tokens == round(len(body) / 4)
    pictures = await read(TokenIds(IDS, 100, complete=False), chat(HELLO, IMAGES))
    assert 3 * MEDIA_TOKENS < pictures.prompt_tokens < 3 * MEDIA_TOKENS + 400
    counted = await read(TokenIds(IDS, 7_777, complete=False), chat(HELLO, IMAGES))
    assert counted.prompt_tokens == 7_777, "an engine has counted the images"
    assert (await read(NoTokens.DEADLINE, b"{}")).prompt_tokens >= 1


async def test_the_guess_learns_from_what_was_told() -> None:
    source = Source(TokenIds(IDS, 300))
    reads = reader(source)
    body = chat(HELLO)
    for _ in range(300):
        await reads.read(arrival(body), Endpoint.CHAT)
    source.answer = NoTokens.DEADLINE
    assert (await reads.read(arrival(body), Endpoint.CHAT)).prompt_tokens == pytest.approx(300, rel=0.02)


async def test_without_a_prompt_nothing_is_booked_and_nobody_asked() -> None:
    source = Source(NoTokens.DEADLINE)
    request = await reader(source).read(arrival(b""), Endpoint.OTHER)
    assert (request.match, request.prompt_tokens, source.originals) == (Match.NONE, 0, [])


@pytest.mark.parametrize("header", SESSION_HEADERS)
async def test_a_header_names_the_session_before_the_body_does(header: str) -> None:
    body = chat(HELLO, prompt_cache_key="of the body")
    assert (await read(NoTokens.DEADLINE, body, (header, "of the header"))).session == "of the header"
    assert (await read(NoTokens.DEADLINE, body, (header, ""))).session == "of the body"
    assert (await read(NoTokens.DEADLINE, chat(HELLO))).session is None


async def test_an_engine_gets_the_clients_body_and_credentials_and_no_other_header() -> None:
    source = Source(TokenIds(IDS, 100))
    body = chat(HELLO)
    await reader(source).read(arrival(body, ("authorization", "Bearer k"), ("cookie", "c")), Endpoint.CHAT)
    assert source.originals == [Original(body, [("authorization", "Bearer k")])]


def plain_reader(pool: EncodePool, timeout_s: float = 20.0) -> tuple[Reader, Source]:
    """A reader with the packaged model's tokenizer for plain chats, and what it falls back to."""
    careful = Source(NoTokens.DEADLINE)
    tokenizers = Tokenizers(LocalTokenizer.load("warmroute-tiny"))
    plain = PlainChatSource(lambda _: Served(("m",)), tokenizers, pool, timeout_s)
    return Reader(careful, plain, random.Random(0)), careful


async def test_a_plain_chat_is_read_at_once_if_it_is_short_and_beside_the_loop_if_it_is_long() -> None:
    with EncodePool(1) as pool:
        reads, careful = plain_reader(pool)
        short = arrival(chat(HELLO, stream=True, max_tokens=7))
        now = reads.read_now(short, Endpoint.CHAT)
        assert now is not None
        assert (now.match, now.model, now.stream, now.max_tokens) == (Match.EXACT, "m", True, 7)
        for words in (5_000, 300_000):
            body = chat({"role": "user", "content": "hello " * words})
            assert reads.read_now(arrival(body), Endpoint.CHAT) is None
            later = await reads.read_on(arrival(body), Endpoint.CHAT)
            assert later.match is Match.EXACT
            assert later.prompt_tokens > words
        assert careful.originals == []


async def test_of_a_plain_chat_the_session_is_known_by_a_header() -> None:
    with EncodePool(1) as pool:
        reads, _ = plain_reader(pool)
        named = await reads.read(arrival(chat(HELLO), ("session-id", "s")), Endpoint.CHAT)
        unnamed = await reads.read(arrival(chat(HELLO)), Endpoint.CHAT)
        assert (named.session, unnamed.session) == ("s", None)


async def test_what_is_not_plain_is_read_with_care() -> None:
    with EncodePool(1) as pool:
        reads, careful = plain_reader(pool)
        for body in (chat(HELLO, tools=[]), chat(IMAGES), chat(HELLO, cache_salt="s"), b"{}", b""):
            assert reads.read_now(arrival(body), Endpoint.CHAT) is None
            assert (await reads.read_on(arrival(body), Endpoint.CHAT)).match is Match.NONE
        assert reads.read_now(arrival(chat(HELLO)), Endpoint.COMPLETIONS) is None
        assert len(careful.originals) == 3


async def test_a_long_body_waits_no_longer_for_a_thread_than_the_time_that_tokens_may_take() -> None:
    gate = threading.Event()
    with EncodePool(1) as pool:
        stuck = asyncio.ensure_future(pool.run(gate.wait))
        reads, careful = plain_reader(pool, timeout_s=0.05)
        body = chat({"role": "user", "content": "hello " * 300_000})
        try:
            async with asyncio.timeout(30):
                told = await reads.read_on(arrival(body), Endpoint.CHAT)
        finally:
            gate.set()
        await stuck
    assert told.untold == NoTokens.DEADLINE.value
    assert len(careful.originals) == 1
