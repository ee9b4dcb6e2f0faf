"""A tokenizer in this process: what stays on the loop, what waits for a thread, what is not tried."""

import asyncio
import threading
from array import array
from collections.abc import Iterator

import pytest

from warmroute.openai_api import ChatContent, Content, Endpoint, JsonObject, Prompt, TextContent, TokenContent, Untold
from warmroute.tokenizer import Dialect, EncodePool, LocalTokenizer, LocalTokenSource, NoTokens, Original, TokenIds

TINY = LocalTokenizer.load("warmroute-tiny")
HELLO = {"role": "user", "content": "Hello"}
NEVER = "{{ raise_exception('never') }}"


class Watched(LocalTokenizer):
    """Remembers in which thread it worked; a closed `gate` holds it there."""

    def watch(self) -> None:
        self.threads: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, prompt: Prompt, dialect: Dialect = Dialect.VLLM) -> TokenIds:
        self.threads.append(threading.get_ident())
        assert self.gate.wait(30)
        return super().encode(prompt, dialect)


@pytest.fixture
def watched() -> Watched:
    tokenizer = Watched.load("warmroute-tiny", trust_request_chat_template=True)
    tokenizer.watch()
    return tokenizer


@pytest.fixture
def pool() -> Iterator[EncodePool]:
    with EncodePool(2) as made:
        yield made


def asking(*contents: Content, exact: bool = True) -> Prompt:
    return Prompt(Endpoint.COMPLETIONS, "tiny", contents=contents, exact=exact)


def chatting(text: str) -> Prompt:
    return asking(ChatContent([{"role": "user", "content": text}]))


LARGE = asking(TextContent("a b " * 1000))


async def test_small_prompts_stay_and_large_ones_leave_the_loop(watched: Watched, pool: EncodePool) -> None:
    source = LocalTokenSource(watched, pool)
    for prompt in (asking(TextContent("a b")), chatting("a b")):
        assert await source.tokens(prompt) == TINY.encode(prompt)
    assert watched.threads == [threading.get_ident()] * 2
    for prompt in (LARGE, chatting("a b " * 1000)):
        assert await source.tokens(prompt) == TINY.encode(prompt)
    assert threading.get_ident() not in watched.threads[2:]


async def test_many_tools_parts_or_arguments_make_a_prompt_large(watched: Watched, pool: EncodePool) -> None:
    source = LocalTokenSource(watched, pool)
    parts = [{"type": "text", "text": "a" * 500}, "b" * 1600]
    tools = [{"type": "function", "function": {"name": "f"}}] * 5
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": "' + "y" * 2100 + '"}'}}
    called: list[JsonObject] = [HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}]
    for chat in (ChatContent([{"role": "user", "content": parts}]), ChatContent([HELLO], tools), ChatContent(called)):
        assert await source.tokens(asking(chat)) == TINY.encode(asking(chat))
    assert threading.get_ident() not in watched.threads


async def test_a_body_is_judged_by_its_bytes(watched: Watched, pool: EncodePool) -> None:
    source = LocalTokenSource(watched, pool)
    await source.tokens(asking(TextContent("a b")), Original(b"x" * 2001))
    assert threading.get_ident() not in watched.threads


async def test_a_template_of_the_clients_own_never_runs_on_the_loop(watched: Watched, pool: EncodePool) -> None:
    source = LocalTokenSource(watched, pool)
    prompt = asking(ChatContent([HELLO], chat_template="Hello"))
    told = await source.tokens(prompt)
    assert isinstance(told, TokenIds)
    assert list(told.ids) == list(TINY.encode_text("Hello", False))
    assert threading.get_ident() not in watched.threads


async def test_the_loop_runs_on_while_a_large_prompt_is_encoded(watched: Watched, pool: EncodePool) -> None:
    watched.gate.clear()
    work = asyncio.ensure_future(LocalTokenSource(watched, pool).tokens(LARGE))
    for _ in range(20):
        await asyncio.sleep(0.001)
        assert not work.done()
    watched.gate.set()
    assert await work == TINY.encode(LARGE)


async def test_ids_need_no_tokenizer(watched: Watched, pool: EncodePool) -> None:
    batch = asking(TokenContent(array("I", (5, 6))), TokenContent(array("I", (7,))))
    assert await LocalTokenSource(watched, pool).tokens(batch) == TokenIds(array("I", (5, 6)), 3)
    assert watched.threads == []


async def test_what_is_left_out_of_a_prompt_makes_its_ids_a_beginning(pool: EncodePool) -> None:
    told = await LocalTokenSource(TINY, pool).tokens(asking(TextContent("x"), exact=False))
    assert isinstance(told, TokenIds)
    assert not told.complete


async def test_why_a_prompt_cannot_be_told_has_a_word(pool: EncodePool) -> None:
    source = LocalTokenSource(TINY, pool)
    assert await source.tokens(asking(ChatContent([HELLO], chat_template=NEVER))) is NoTokens.CLIENT_TEMPLATE
    unfinished = asking(ChatContent([{"role": "user", "content": "x" * 5000}, {}]))
    assert await source.tokens(unfinished) is NoTokens.TEMPLATE


async def test_beyond_the_backlog_prompts_are_not_tried(watched: Watched) -> None:
    with EncodePool(2, backlog=1) as pool:
        source = LocalTokenSource(watched, pool)
        watched.gate.clear()
        waiting = [asyncio.ensure_future(source.tokens(LARGE)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await source.tokens(LARGE) is NoTokens.BACKLOG
        watched.gate.set()
        assert await asyncio.gather(*waiting) == [TINY.encode(LARGE)] * 3
        assert await source.tokens(LARGE) == TINY.encode(LARGE)


async def test_a_job_that_nobody_waits_for_is_dropped_from_the_queue_and_never_run(watched: Watched) -> None:
    with EncodePool(1) as pool:
        source = LocalTokenSource(watched, pool)
        watched.gate.clear()
        running, queued = (asyncio.ensure_future(source.tokens(LARGE)) for _ in range(2))
        await asyncio.sleep(0.01)
        assert pool.waiting == 1
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        assert pool.waiting == 0
        watched.gate.set()
        assert await running == TINY.encode(LARGE)
        assert len(watched.threads) == 1


async def test_a_job_that_runs_keeps_its_thread_until_it_ends_though_nobody_waits(watched: Watched) -> None:
    with EncodePool(1) as pool:
        source = LocalTokenSource(watched, pool)
        watched.gate.clear()
        given_up = asyncio.ensure_future(source.tokens(LARGE))
        await asyncio.sleep(0.01)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        later = asyncio.ensure_future(source.tokens(LARGE))
        await asyncio.sleep(0.01)
        assert len(watched.threads) == 1
        watched.gate.set()
        assert await later == TINY.encode(LARGE)
        assert len(watched.threads) == 2


async def test_a_text_longer_than_any_context_is_not_tried(watched: Watched, pool: EncodePool) -> None:
    source = LocalTokenSource(watched, pool)
    assert await source.tokens(asking(TextContent("a" * 16_000_001))) is NoTokens.TOO_LONG
    assert watched.threads == []
    # A body may be longer for what is no text in it.
    assert isinstance(await source.tokens(asking(TextContent("a b")), Original(b"x" * 16_000_001)), TokenIds)


def test_the_words_of_sources_are_none_of_those_of_bodies() -> None:
    assert {word.value for word in NoTokens}.isdisjoint(word.value for word in Untold)


async def test_a_thread_takes_the_next_job_without_the_loop() -> None:
    done, all_done = list[int](), threading.Event()

    def job() -> None:
        done.append(len(done))
        if len(done) == 5:
            all_done.set()

    with EncodePool(1) as pool:
        jobs = [asyncio.ensure_future(pool.run(job)) for _ in range(5)]
        await asyncio.sleep(0)
        assert all_done.wait(30), "the loop does nothing meanwhile"
        await asyncio.gather(*jobs)
        await asyncio.sleep(0)
        assert (done, pool.waiting) == ([0, 1, 2, 3, 4], 0)
