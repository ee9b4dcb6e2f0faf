"""Multi-turn conversations in every dialect the router reads: bodies out, answers in. No sockets, chance handed in."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Body = dict[str, Any]
Encode = Callable[[str], list[int]]

# Twenty-four tokens complete a block now and then, so that generated blocks are found again in later turns.
ANSWER_TOKENS = 24
_SYSTEM_SENTENCES = 14
_QUESTION_SENTENCES = (2, 5)
_WORDS = re.findall(
    r"\w+",
    "the router keeps an index of blocks and asks each worker which prefix it still holds before a request is sent on "
    "a queue grows when many long prompts arrive at once while short answers leave early and free their memory again "
    "please compare both plans name the cheaper one and explain why it would finish sooner under heavier traffic today",
)
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Look up a word in the glossary.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]


class Dialect(StrEnum):
    """The ways a client may speak; each conversation keeps to one."""

    CHAT = "chat"
    CHAT_STREAM = "chat, streamed"
    CHAT_PARTS = "chat, content in parts"
    CHAT_TOOLS = "chat with tools"
    CHAT_SALT = "chat with cache_salt"
    COMPLETION = "completion"
    COMPLETION_STREAM = "completion, streamed"
    COMPLETION_TOKENS = "completion of token ids"

    @property
    def is_chat(self) -> bool:
        """Whether the body carries messages rather than a prompt."""
        return self.name.startswith("CHAT")

    @property
    def is_streamed(self) -> bool:
        """Whether the answer comes as server-sent events."""
        return self.name.endswith("STREAM")


@dataclass(frozen=True, slots=True)
class Request:
    """One body and the path it is posted to."""

    path: str
    body: Body
    label: str
    dialect: Dialect


@dataclass(slots=True)
class Conversation:
    """A growing history under a system prompt; `ask` gives the next request, `answered` takes what came back."""

    name: str
    model: str
    dialect: Dialect
    system: str
    encode: Encode
    messages: list[Body] = field(default_factory=list)
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    turn: int = 0

    def ask(self, question: str) -> Request:
        """The next request, with the whole history before `question`."""
        self.turn += 1
        body: Body = {"model": self.model, "max_tokens": ANSWER_TOKENS, "temperature": 0}
        if self.dialect.is_streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= self._chat(question) if self.dialect.is_chat else self._completion(question)
        path = "/v1/chat/completions" if self.dialect.is_chat else "/v1/completions"
        return Request(path, body, f"{self.name} turn {self.turn}", self.dialect)

    def answered(self, text: str, token_ids: list[int]) -> None:
        """Add the model's answer to the history."""
        self.messages.append({"role": "assistant", "content": text})
        self.text += text
        self.token_ids += token_ids

    def _chat(self, question: str) -> Body:
        content: Any = question
        if self.dialect is Dialect.CHAT_PARTS:
            half = len(question) // 2
            content = [{"type": "text", "text": question[:half]}, {"type": "text", "text": question[half:]}]
        self.messages = self.messages or [{"role": "system", "content": self.system}]
        self.messages.append({"role": "user", "content": content})
        body: Body = {"messages": list(self.messages)}
        if self.dialect is Dialect.CHAT_TOOLS:
            body |= {"tools": _TOOLS, "tool_choice": "none"}
        if self.dialect is Dialect.CHAT_SALT:
            body["cache_salt"] = self.name
        return body

    def _completion(self, question: str) -> Body:
        addition = f"{'' if self.text else self.system}\nUser: {question}\nAssistant:"
        self.text += addition
        if self.dialect is not Dialect.COMPLETION_TOKENS:
            return {"prompt": self.text}
        self.token_ids += self.encode(addition)
        return {"prompt": list(self.token_ids), "return_token_ids": True}


def sentences(rng: random.Random, count: int) -> str:
    """`count` sentences of plain words."""
    return " ".join(" ".join(rng.choices(_WORDS, k=rng.randint(6, 12))).capitalize() + "." for _ in range(count))


def question(rng: random.Random) -> str:
    """What a user says in one turn: two to five sentences."""
    return sentences(rng, rng.randint(*_QUESTION_SENTENCES))


def conversations(name: str, count: int, model: str, rng: random.Random, encode: Encode) -> list[Conversation]:
    """`count` conversations that share three system prompts and go round the dialects, so that prefixes are shared."""
    systems = [f"You are assistant {number} of {name}. {sentences(rng, _SYSTEM_SENTENCES)}" for number in range(3)]
    dialects = list(Dialect)
    return [
        Conversation(f"{name} {n}", model, dialects[n % len(dialects)], systems[n % len(systems)], encode)
        for n in range(count)
    ]
