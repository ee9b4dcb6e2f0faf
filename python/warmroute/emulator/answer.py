"""What the emulated engine answers: readable words that depend on the prompt's token ids and nothing else.

Equal prompts get equal answers from every emulated engine of the same model, however they are batched, cached or
preempted, so a client can tell whether a router changed anything. A shorter answer is the beginning of a longer one.
"""

import random
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Protocol

from warmroute.openai_api import Prompt
from warmroute.tokenizer import TokenIds

_WORD = re.compile(r" [a-z]{4,}")
_OPENER = re.compile(r"[A-Z][a-z]{2,}")
_STOP = re.compile(r"\.")
_ANYTHING = re.compile(r".+", re.DOTALL)
_MOST_WORDS = 1_000
_WORDS_PER_STOP = 12


class Codec(Protocol):
    """What the emulator needs of a tokenizer."""

    @property
    def vocab_size(self) -> int: ...

    def encode(self, prompt: Prompt) -> TokenIds: ...

    def encode_text(self, text: str, add_special_tokens: bool) -> Sequence[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, token by token; `finish_reason` is "stop" where it ended by itself, otherwise "length"."""

    token_ids: list[int]
    pieces: list[str]
    finish_reason: str

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class AnswerBook:
    """Writes answers in words that the tokenizer has one token for.

    The text of an answer gives the same ids again when it comes back as part of the next prompt, after a special token
    or a line break, so the blocks it filled are found by the next turn, as with a real engine.
    """

    def __init__(self, codec: Codec, model: str, answer_tokens: int) -> None:
        self._model = model.encode()
        self._answer_tokens = answer_tokens
        texts = [codec.decode([token]) for token in range(codec.vocab_size)]
        # A vocabulary without words is possible: then any text will do.
        self._words = _single_tokens(codec, texts, _WORD) or _single_tokens(codec, texts, _ANYTHING)
        self._openers = _single_tokens(codec, texts, _OPENER) or self._words
        self._stop = next(iter(_single_tokens(codec, texts, _STOP)), None)
        self._texts = texts

    def digest(self, prompt_ids: Sequence[int]) -> str:
        """32 hex digits that stand for the model and the prompt; the ids of answers are made of it."""
        return blake2b(self._model + b"\0" + array("I", prompt_ids).tobytes(), digest_size=16).hexdigest()

    def write(self, prompt_ids: Sequence[int], limit: int, ignore_eos: bool = False) -> Answer:
        """The answer to `prompt_ids`, cut at `limit` tokens (at least one) unless it ends before.

        With `ignore_eos` it never ends before, as in vLLM.
        """
        rng = random.Random(int(self.digest(prompt_ids), 16))
        natural = max(1, round(self._answer_tokens * rng.uniform(0.5, 1.5)))
        length = limit if ignore_eos else min(limit, natural)
        ids = [rng.choice(self._openers), *self._sentences(rng, length - 1)]
        finish_reason = "stop" if length == natural < limit else "length"
        return Answer(ids, [self._texts[token] for token in ids], finish_reason)

    def _sentences(self, rng: random.Random, count: int) -> list[int]:
        """`count` words, with a full stop here and there but never two together."""
        ids: list[int] = []
        may_stop = True
        for _ in range(count):
            if self._stop is not None and may_stop and rng.random() * _WORDS_PER_STOP < 1:
                ids.append(self._stop)
                may_stop = False
            else:
                ids.append(rng.choice(self._words))
                may_stop = True
        return ids


def _single_tokens(codec: Codec, texts: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    """Tokens whose text matches `pattern` and is encoded as that token again, at most `_MOST_WORDS`."""
    matching = (token for token, text in enumerate(texts) if pattern.fullmatch(text))
    return list(
        islice((token for token in matching if list(codec.encode_text(texts[token], False)) == [token]), _MOST_WORDS)
    )
