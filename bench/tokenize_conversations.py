"""Conversations that grow: what a further round costs our tokenizer, beside a whole encode by the `tokenizers` wheel.

Every round's ids are compared with the wheel's. No two conversations share a paragraph.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench.environment import distribution
from bench.tokenize_corpus import paragraphs
from bench.tokenize_encoders import file_of
from tokenizers import Tokenizer

from warmroute.openai_api import ChatContent, Content, Endpoint, Prompt, TextContent
from warmroute.tokenizer import LocalTokenizer

QUESTION_TOKENS = 120
ANSWER_TOKENS = 370
"""With what a template adds some 500 tokens a round: a tool's result or a person's words, and the model's answer."""
SYSTEM_TOKENS = 2_000

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Growth:
    """How far conversations grow, in tokens, and how many of them are measured."""

    tokens: int = 100_000
    window: int = 50_000
    """Where history is cut from the front, a conversation never gets longer than this."""
    window_rounds: int = 60
    conversations: int = 3


class Writer:
    """Prose and code by the token, never the same paragraph twice."""

    def __init__(self, wheel: Tokenizer, rng: random.Random) -> None:
        self._wheel = wheel
        self._pool = paragraphs("english and code", rng)

    def text(self, tokens: int) -> str:
        """About `tokens` tokens, cut within a word as likely as not."""
        text = next(self._pool)
        while len(offsets := self._wheel.encode(text, add_special_tokens=False).offsets) < tokens:
            text += next(self._pool)
        end: int = offsets[tokens - 1][1]
        return text[:end]


def growing_chat(writer: Writer, _: Growth) -> Iterator[Content]:
    """A conversation to which each round adds an answer and a question."""
    messages: Messages = [
        {"role": "system", "content": writer.text(SYSTEM_TOKENS)},
        {"role": "user", "content": writer.text(QUESTION_TOKENS)},
    ]
    while True:
        yield ChatContent(list(messages))
        messages += _round(writer)


def windowed_chat(writer: Writer, growth: Growth) -> Iterator[Content]:
    """A long conversation of which each round forgets its oldest messages but the first, to make room for the new."""
    messages: Messages = [
        {"role": "system", "content": writer.text(SYSTEM_TOKENS)},
        {"role": "user", "content": writer.text(QUESTION_TOKENS)},
    ]
    for _ in range(growth.window // (QUESTION_TOKENS + ANSWER_TOKENS)):
        messages += _round(writer)
    while True:
        yield ChatContent(list(messages))
        messages = [messages[0], *messages[3:], *_round(writer)]


def growing_text(writer: Writer, _: Growth) -> Iterator[Content]:
    """A text without any special token that gets longer at its end."""
    text = writer.text(SYSTEM_TOKENS)
    while True:
        yield TextContent(text)
        text += writer.text(QUESTION_TOKENS + ANSWER_TOKENS)


def windowed_text(writer: Writer, growth: Growth) -> Iterator[Content]:
    """A long text that loses as many characters at its front, wherever that cuts it, as it gains at its end."""
    text = writer.text(growth.window)
    while True:
        yield TextContent(text)
        new = writer.text(QUESTION_TOKENS + ANSWER_TOKENS)
        text = text[len(new) :] + new


CASES: dict[str, Callable[[Writer, Growth], Iterator[Content]]] = {
    "chat": growing_chat,
    "chat cut from the front": windowed_chat,
    "text": growing_text,
    "text cut from the front": windowed_text,
}


def _round(writer: Writer) -> Messages:
    return [
        {"role": "assistant", "content": writer.text(ANSWER_TOKENS)},
        {"role": "user", "content": writer.text(QUESTION_TOKENS)},
    ]


@dataclass(frozen=True, slots=True)
class Round:
    """One round, in milliseconds: all that ours does, the encoding alone, and a whole encode by the wheel."""

    tokens: int
    whole: float
    encode: float
    full: float


class Meter:
    """Two tokenizers of ours that see the same rounds, one timed whole and one in its parts, and the wheel."""

    def __init__(self, tokenizer: str) -> None:
        self.ours = LocalTokenizer.load(file_of(tokenizer).parent)
        self._parts = LocalTokenizer.load(file_of(tokenizer).parent)
        self.wheel = Tokenizer.from_file(str(file_of(tokenizer)))

    def measure(self, content: Content) -> Round:
        """AssertionError where the ids are not the wheel's."""
        start = time.perf_counter()
        told = self.ours.encode(Prompt(Endpoint.CHAT, contents=(content,)))
        whole = time.perf_counter() - start
        assert isinstance(content, ChatContent | TextContent)
        text = self._parts.render(content) if isinstance(content, ChatContent) else content.text
        special = content.add_special_tokens
        start = time.perf_counter()
        self._parts.encode_text(text, special)
        encode = time.perf_counter() - start
        start = time.perf_counter()
        right = self.wheel.encode_batch_fast([text], add_special_tokens=special)[0].ids
        full = time.perf_counter() - start
        assert list(told.ids) == right, "the ids are not those of a whole encode"
        return Round(len(right), 1_000 * whole, 1_000 * encode, 1_000 * full)


def measure(tokenizer: str, growth: Growth, seed: int, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Of each case, over the rounds of all conversations after the first round, which nothing was kept of."""
    found = {}
    for case, contents in CASES.items():
        say(f"{case}, {growth.conversations} times")
        meter = Meter(tokenizer)
        writer = Writer(meter.wheel, random.Random(seed))
        rounds: list[Round] = []
        share: list[float] = []
        for _ in range(growth.conversations):
            grown = contents(writer, growth)
            meter.measure(next(grown))
            before = meter.ours.segment_stats()
            rounds += _rounds(meter, grown, growth, case)
            after = meter.ours.segment_stats()
            share.append((after.found_bytes - before.found_bytes) / (after.asked_bytes - before.asked_bytes))
        found[case] = {**_figures(rounds), "found_bytes_share": sum(share) / len(share)}
    return found


def _rounds(meter: Meter, grown: Iterator[Content], growth: Growth, case: str) -> Iterator[Round]:
    windowed = case.endswith("cut from the front")
    for number, content in enumerate(grown):
        measured = meter.measure(content)
        yield measured
        if number == growth.window_rounds if windowed else measured.tokens >= growth.tokens:
            return


def _figures(rounds: list[Round]) -> dict[str, Any]:
    steps = [later.tokens - earlier.tokens for earlier, later in pairwise(rounds)]
    longest = max(rounds, key=lambda each: each.tokens)
    return {
        "over_full_ratio": distribution([each.whole / each.full for each in rounds]),
        "encode_over_full_ratio": distribution([each.encode / each.full for each in rounds]),
        "ms": distribution([each.whole for each in rounds]),
        "encode_ms": distribution([each.encode for each in rounds]),
        "full_ms": distribution([each.full for each in rounds]),
        "new_tokens": sorted(steps)[len(steps) // 2],
        "longest": {
            "tokens": longest.tokens,
            "ms": longest.whole,
            "encode_ms": longest.encode,
            "full_ms": longest.full,
        },
    }
