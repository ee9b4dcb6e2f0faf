"""Plain chats told from their bytes have the ids of their rendering, for every family and dialect."""

import json
import os
import random
from array import array
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tokenizer.corpus.families import FAMILIES, PARAGRAPHS, special_contents
from warmroute._native import PlainChat
from warmroute.errors import TemplateError
from warmroute.openai_api import Endpoint, parse_prompt
from warmroute.tokenizer import Dialect, LocalTokenizer
from warmroute.tokenizer.plain_chats import PlainChats

TODAY = datetime(2026, 3, 9, 23, 30)
_MUCH = 2**40
CONVERSATIONS = int(os.environ.get("WARMROUTE_PLAIN_CONVERSATIONS", "25"))
Message = dict[str, str]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalTokenizer]:
    return {name: load(name, tmp_path_factory.mktemp(name)) for name in FAMILIES}


def load(family: str, folder: Path) -> LocalTokenizer:
    return LocalTokenizer.load(FAMILIES[family].write(folder), clock=lambda: TODAY)


def body_of(messages: list[Message]) -> bytes:
    return json.dumps({"model": "m", "messages": messages, "stream": True}, ensure_ascii=False).encode()


def told(chats: PlainChats, messages: list[Message]) -> "array[int] | None":
    """The ids as plain; None where the conversation has to be rendered."""
    chat = PlainChat.read(body_of(messages))
    assert chat is not None
    found = chats.tell(chat, _MUCH)
    if not isinstance(found, array) and chats.can_learn(chat.signature):
        chats.learn(chat.signature)
        found = chats.tell(chat, _MUCH)
    return found if isinstance(found, array) else None


def rendered(tokenizer: LocalTokenizer, dialect: Dialect, messages: list[Message]) -> "array[int] | None":
    try:
        prompt = parse_prompt(Endpoint.CHAT, body_of(messages))
        ids = tokenizer.encode(prompt, dialect).ids
        return ids if isinstance(ids, array) else array("I", ids)
    except TemplateError:
        return None


class Conversations:
    """Conversations that go on, branch and repeat, with contents that are awkward for templates and tokenizers."""

    def __init__(self, family: str, seed: int) -> None:
        self._rng = random.Random(seed)
        self._awkward = [
            *special_contents(FAMILIES[family].tokenizer),
            *(
                "</think>",
                "<think>",
                " ",
                "\n",
                "\n\n",
                "\t",
                "\u00a0",
                "\u001f",
                "",
                "[INST]",
                "<<SYS>>",
                "<tool_response>",
            ),
            *("</tool_response>", "x-anthropic-billing-header: 1\nrest", "<|im_", "end|>", "é", "😀", "\u2028"),
        ]

    def content(self) -> str:
        rng = self._rng
        start = rng.randrange(len(PARAGRAPHS) - 400)
        pieces = [PARAGRAPHS[start : start + rng.choice([0, 5, 60, 300])]]
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            pieces.insert(rng.randrange(len(pieces) + 1), rng.choice(self._awkward))
        return "".join(pieces)

    def opening(self) -> list[Message]:
        long = [{"role": "system", "content": self.content() * self._rng.choice([1, 20])}]
        return (long if self._rng.random() < 0.6 else []) + [self.said("user")]

    def said(self, role: str) -> Message:
        return {"role": role, "content": self.content()}

    def next(self, messages: list[Message]) -> list[Message]:
        """One more turn, or another one in place of the last; now and then of an odd role."""
        if self._rng.random() < 0.2 and len(messages) > 1:
            return [*messages[:-1], self.said(messages[-1]["role"])]
        if self._rng.random() < 0.05:
            return [*messages, self.said(self._rng.choice(["assistant", "system", "user"]))]
        return [*messages, self.said("assistant"), self.said("user")]


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_ids_of_a_plain_chat_are_those_of_its_rendering(
    tokenizers: dict[str, LocalTokenizer], family: str, dialect: Dialect
) -> None:
    tokenizer = tokenizers[family]
    chats = tokenizer.plain_chats(dialect)
    assert chats is not None
    plain = 0
    conversations = Conversations(family, seed=len(family))
    for _ in range(CONVERSATIONS):
        messages = conversations.opening()
        for _ in range(6):
            ids = told(chats, messages)
            if ids is not None:
                plain += 1
                assert ids == rendered(tokenizer, dialect, messages), messages
            messages = conversations.next(messages)
    assert plain > 10, "most contents are nothing that a template looks for"


def test_a_template_that_writes_the_date_writes_a_new_one_the_next_day(tmp_path: Path) -> None:
    now = [TODAY]
    tokenizer = LocalTokenizer.load(FAMILIES["llama3_1"].write(tmp_path), clock=lambda: now[0])
    chats = tokenizer.plain_chats(Dialect.VLLM)
    assert chats is not None
    messages = [{"role": "user", "content": "hello"}]
    today = told(chats, messages)
    now[0] += timedelta(hours=1)
    tomorrow = told(chats, messages)
    assert today is not None
    assert today != tomorrow
    assert tomorrow == rendered(tokenizer, Dialect.VLLM, messages)


def test_a_template_that_writes_the_time_is_rendered_each_time(tmp_path: Path) -> None:
    folder = FAMILIES["chatml"].write(tmp_path)
    source = "{{ strftime_now('%H:%M') }}{{ messages[0].content }}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": source}))
    chats = LocalTokenizer.load(folder).plain_chats(Dialect.VLLM)
    assert chats is not None
    assert told(chats, [{"role": "user", "content": "hello"}]) is None


def test_what_goes_on_is_told_with_little_that_is_new(tmp_path: Path) -> None:
    chats = load("qwen2_5", tmp_path).plain_chats(Dialect.VLLM)
    assert chats is not None
    messages = [{"role": "system", "content": PARAGRAPHS[:20_000]}, {"role": "user", "content": "first"}]
    assert told(chats, messages) is not None
    messages += [{"role": "assistant", "content": "answer"}, {"role": "user", "content": "second"}]
    assert told(chats, messages) is not None, "learns its roles"
    other = [*messages[:1], {"role": "user", "content": "another conversation with the same opening"}]
    for known in (messages, other):
        chat = PlainChat.read(body_of(known))
        assert chat is not None
        assert isinstance(chats.tell(chat, 200), array)
    chat = PlainChat.read(body_of([{"role": "user", "content": PARAGRAPHS[:3_000]}]))
    assert chat is not None
    assert chats.learn(chat.signature)
    assert not isinstance(chats.tell(chat, 200), array)
