"""Which tokenizer tells the tokens of which model's prompt, who is asked else, and until when."""

import asyncio
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmroute.openai_api import ChatContent, Content, Endpoint, Prompt, TextContent, TokenContent
from warmroute.tokenizer import (
    Dialect,
    EncodePool,
    LocalTokenizer,
    NoTokens,
    Original,
    PerModelSource,
    Served,
    TokenIds,
    Tokenizers,
)

TINY = LocalTokenizer.load("warmroute-tiny")
FROM_ENGINE = TokenIds(array("I", (7,)), 1)
TEXT = TextContent("some words")
CHAT = ChatContent([{"role": "user", "content": "Hello"}])


class Engines:
    """Answers at once, or not before it is let."""

    def __init__(self, answer: TokenIds | NoTokens = FROM_ENGINE) -> None:
        self.answer = answer
        self.asked: list[str | None] = []
        self.let = asyncio.Event()
        self.let.set()

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        self.asked.append(prompt.model)
        await self.let.wait()
        return self.answer


@pytest.fixture
def pool() -> Iterator[EncodePool]:
    with EncodePool(1) as made:
        yield made


def asking(content: Content, model: str | None = "tiny") -> Prompt:
    return Prompt(Endpoint.CHAT, model, contents=(content,))


def source_of(
    pool: EncodePool,
    engines: Engines,
    tokenizers: Tokenizers,
    served: dict[str | None, Served] | None = None,
    timeout_s: float = 5.0,
) -> PerModelSource:
    known: dict[str | None, Served] = {"tiny": Served(("tiny",)), "other": Served(("other",))}
    known = known if served is None else served
    return PerModelSource(lambda model: known.get(model), tokenizers, pool, engines, timeout_s)


async def test_each_model_has_its_own_tokenizer_and_the_engine_where_there_is_none(pool: EncodePool) -> None:
    engines = Engines()
    source = source_of(pool, engines, Tokenizers(own={"tiny": TINY}))
    assert await source.tokens(asking(TEXT)) == TINY.encode(asking(TEXT))
    assert await source.tokens(asking(TEXT, "other")) == FROM_ENGINE
    assert engines.asked == ["other"]


async def test_an_adapter_has_the_tokenizer_of_its_base_model(pool: EncodePool) -> None:
    served: dict[str | None, Served] = {"sql": Served(("sql", "tiny"))}
    source = source_of(pool, Engines(), Tokenizers(own={"tiny": TINY}), served)
    assert await source.tokens(asking(TEXT, "sql")) == TINY.encode(asking(TEXT))


async def test_a_model_that_nobody_serves_costs_nothing(pool: EncodePool) -> None:
    engines = Engines()
    source = source_of(pool, engines, Tokenizers(TINY))
    assert await source.tokens(asking(TEXT, "unknown")) is NoTokens.NO_WORKER
    assert engines.asked == []
    given = asking(TokenContent(array("I", (1,))), "unknown")
    assert await source.tokens(given) == TokenIds(array("I", (1,)), 1), "ids need nobody"


async def test_what_fails_here_is_asked_second_and_else_told_as_it_was(pool: EncodePool) -> None:
    own = asking(ChatContent([{"role": "user", "content": "Hello"}], chat_template="x"))
    assert await source_of(pool, Engines(), Tokenizers(TINY)).tokens(own) == FROM_ENGINE
    failing = Engines(NoTokens.ENGINE_FAILED)
    assert await source_of(pool, failing, Tokenizers(TINY)).tokens(own) is NoTokens.CLIENT_TEMPLATE
    assert failing.asked == ["tiny"]


async def test_the_deadline_covers_asking_after_what_failed_here(pool: EncodePool) -> None:
    engines = Engines()
    engines.let.clear()
    own = asking(ChatContent([{"role": "user", "content": "Hello"}], chat_template="x"))
    assert await source_of(pool, engines, Tokenizers(TINY), timeout_s=0.05).tokens(own) is NoTokens.DEADLINE


class Held(LocalTokenizer):
    """Works only while `gate` is open."""

    gate = threading.Event()

    def encode(self, prompt: Prompt, dialect: Dialect = Dialect.VLLM) -> TokenIds:
        assert self.gate.wait(30)
        return super().encode(prompt, dialect)


async def test_the_deadline_covers_waiting_for_a_thread_and_leaves_nothing_in_the_queue(pool: EncodePool) -> None:
    held = Held.load("warmroute-tiny")
    held.gate.clear()
    large = asking(TextContent("a b " * 1000))
    source = source_of(pool, Engines(), Tokenizers(held), timeout_s=0.05)
    assert await asyncio.gather(*(source.tokens(large) for _ in range(5))) == [NoTokens.DEADLINE] * 5
    assert pool.waiting == 0
    held.gate.set()
    patient = source_of(pool, Engines(), Tokenizers(held))
    assert await patient.tokens(large) == TINY.encode(large)


async def test_of_mixed_engines_a_conversation_is_known_in_part_and_a_text_in_whole(pool: EncodePool) -> None:
    served: dict[str | None, Served] = {"tiny": Served(("tiny",), mixed=True)}
    source = source_of(pool, Engines(), Tokenizers(TINY), served)
    for content, complete in ((CHAT, False), (TEXT, True)):
        told = await source.tokens(asking(content))
        assert isinstance(told, TokenIds)
        assert told.complete is complete


def test_a_tokenizer_cuts_nothing_off_that_its_file_says_to_cut(tmp_path: Path) -> None:
    import json

    from warmroute.tokenizer import packaged_model

    stored = json.loads((packaged_model("warmroute-tiny") / "tokenizer.json").read_text())
    stored["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    stored["padding"] = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "x",
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    cut = LocalTokenizer.load(tmp_path)
    text = "many words and more of them " * 20
    assert list(cut.encode_text(text, True)) == list(TINY.encode_text(text, True))
    assert list(cut.encode_text("a", True)) == list(TINY.encode_text("a", True))
