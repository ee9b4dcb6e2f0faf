"""What the clients ask: a bounded set of bodies made from the seed, in four dialects, streamed and not."""

import json
import random
from dataclasses import dataclass
from typing import Any

MODEL = "warmroute-tiny"
CHAT, COMPLETIONS, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
PATHS = (CHAT, COMPLETIONS, MESSAGES, RESPONSES)

# Bounded, so that the router's caches are full after the warm-up, and growth after it is a leak.
_ASKS = 160
_TOPICS = 8
_WORDS = [
    "river",
    "stone",
    "lamp",
    "north",
    "paper",
    "green",
    "seven",
    "quiet",
    "market",
    "window",
    "iron",
    "cloud",
    "bread",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: where to, and the bytes of its body."""

    path: str
    body: bytes
    stream: bool

    @property
    def key(self) -> tuple[str, bytes]:
        return self.path, self.body


def make_asks(seed: int) -> list[Ask]:
    """The bodies of a run. Beginnings are shared, as system prompts are, so that prefixes count."""
    rng = random.Random(f"asks/{seed}")
    topics = [_words(rng, rng.randrange(40, 400)) for _ in range(_TOPICS)]
    return [_ask(rng, rng.choice(topics)) for _ in range(_ASKS)]


def long_asks(asks: list[Ask]) -> list[Ask]:
    """Streams that go on for long enough to be interrupted."""
    return [ask for ask in asks if ask.stream and ask.path == COMPLETIONS]


def _ask(rng: random.Random, topic: str) -> Ask:
    path, stream = rng.choice(PATHS), rng.random() < 0.6
    question, limit = _words(rng, rng.randrange(3, 60)), rng.randrange(1, 120)
    body: dict[str, Any] = {"model": MODEL, "stream": stream}
    if path == CHAT:
        messages = [{"role": "system", "content": topic}, {"role": "user", "content": question}]
        body |= {"messages": messages, "max_tokens": limit, "return_token_ids": rng.random() < 0.5}
    elif path == COMPLETIONS:
        prompt: str | list[int] = (
            [rng.randrange(20, 900) for _ in range(80)] if rng.random() < 0.3 else topic + question
        )
        body |= {"prompt": prompt, "max_tokens": limit * 2, "ignore_eos": True}
    elif path == MESSAGES:
        body |= {"system": topic, "messages": [{"role": "user", "content": question}], "max_tokens": limit}
    else:
        body |= {"instructions": topic, "input": question, "max_output_tokens": limit}
    if stream and path in (CHAT, COMPLETIONS) and rng.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    return Ask(path, json.dumps(body).encode(), stream)


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(count)) + " "
