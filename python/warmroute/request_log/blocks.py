"""Prompts as chains of block hashes: all that routing looks at, and nothing that can be read.

    log -> LoggedRequest -> Blocking -> BlockedRequest -> reuse, workload, anonymized file

Half a byte for each token, so that a log of some hundred million tokens fits into memory.
"""

from array import array
from dataclasses import dataclass
from hashlib import blake2b

from warmroute.block import Namespace, hash_blocks
from warmroute.errors import ConfigError, TemplateError
from warmroute.openai_api import Content, TokenContent
from warmroute.request_log.prompt_text import prompt_bytes
from warmroute.request_log.request import BlockIds, BrokenLine, LoggedRequest, ToldPrompt
from warmroute.tokenizer import Dialect, LocalTokenizer

BLOCK_TOKENS = 16
BYTES_PER_TOKEN = 4.0
_WORD_BYTES = 4
# Longer prompts than any engine takes; their blocks would fill the memory.
_MOST_TOKENS = 2**26


@dataclass(frozen=True, slots=True)
class BlockedRequest:
    """A logged request; `request.prompt` is gone, what is known of it is here.

    blocks: hashes of its blocks of `block_tokens` tokens, as an array of type "Q", each covering all before it. The
    last one may be of fewer tokens; where there are fewer than the prompt's, the rest is like nothing else.
    estimated: `prompt_tokens` and the blocks' bounds were told from bytes. logged_tokens: the prompt's by the log.
    """

    at_s: float
    prompt_tokens: int
    blocks: "array[int]"
    block_tokens: int
    estimated: bool = False
    logged_tokens: int | None = None
    text_bytes: int = 0
    answer_tokens: int | None = None
    answer_guessed: bool = False
    max_tokens: int | None = None
    session: str | None = None
    ended_at_s: float | None = None

    @property
    def full_blocks(self) -> int:
        """Of its known blocks those that have `block_tokens` tokens: only these can be found in a cache."""
        return min(len(self.blocks), self.prompt_tokens // self.block_tokens)


@dataclass(frozen=True, slots=True)
class _Blocks:
    hashes: "array[int]"
    tokens: int
    estimated: bool
    text_bytes: int = 0


class Blocking:
    """Makes blocks of `block_tokens` tokens of what a log holds: of token ids as they are, of texts by `tokenizer`;
    without one of `bytes_per_token` bytes for each token.

    What a log holds as blocks keeps its own. ConfigError for sizes that cannot be.
    """

    def __init__(
        self,
        block_tokens: int = BLOCK_TOKENS,
        tokenizer: LocalTokenizer | None = None,
        bytes_per_token: float = BYTES_PER_TOKEN,
        dialect: Dialect = Dialect.VLLM,
    ) -> None:
        if block_tokens < 1:
            raise ConfigError(f"a block must have at least 1 token, not {block_tokens}")
        # Texts are cut after whole words of four bytes, so that they are hashed as token ids are.
        self._words = round(block_tokens * bytes_per_token / _WORD_BYTES)
        if not self._words >= 1:
            raise ConfigError(f"{bytes_per_token:g} bytes a token leave blocks of {block_tokens} tokens without a text")
        self.block_tokens = block_tokens
        self._tokenizer, self._dialect = tokenizer, dialect

    def blocked(self, request: LoggedRequest) -> BlockedRequest:
        """The request in blocks. Raises BrokenLine where its tokens cannot be told."""
        prompt = request.prompt
        if isinstance(prompt, BlockIds):
            blocks, size = _named(prompt), prompt.block_tokens
        else:
            blocks, size = self._told(prompt), self.block_tokens
        if not 1 <= blocks.tokens <= _MOST_TOKENS:
            raise BrokenLine(
                "its prompt is empty" if blocks.tokens < 1 else "its prompt is longer than any engine takes"
            )
        return BlockedRequest(
            at_s=request.at_s,
            prompt_tokens=blocks.tokens,
            blocks=blocks.hashes,
            block_tokens=size,
            estimated=blocks.estimated,
            logged_tokens=request.prompt_tokens,
            text_bytes=blocks.text_bytes,
            answer_tokens=request.answer_tokens,
            answer_guessed=request.answer_guessed,
            max_tokens=request.max_tokens,
            session=request.session,
            ended_at_s=request.ended_at_s,
        )

    def _told(self, prompt: ToldPrompt) -> _Blocks:
        namespace = Namespace(prompt.model, prompt.salt)
        if isinstance(prompt.content, TokenContent) or self._tokenizer is not None:
            ids, whole = self._ids(prompt.content)
            hashes = _chain(ids, self.block_tokens, namespace)
            if prompt.whole and whole:
                return _Blocks(hashes, len(ids), estimated=False)
            return self._with_unknown_rest(prompt, len(ids), hashes)
        text = prompt_bytes(prompt.content)
        words = _words(text)
        full, rest = divmod(len(words), self._words)
        tokens = full * self.block_tokens + min(self.block_tokens - 1, -(-rest * self.block_tokens // self._words))
        return _Blocks(_chain(words, self._words, namespace), max(1, tokens), estimated=True, text_bytes=len(text))

    def _ids(self, content: Content) -> tuple["array[int]", bool]:
        if isinstance(content, TokenContent):
            return array("I", content.token_ids), True
        assert self._tokenizer is not None
        try:
            told = self._tokenizer.tell(content, self._dialect)
        except TemplateError as error:
            raise BrokenLine(f"its conversation cannot be rendered: {error}"[:300]) from error
        return told.ids, told.complete

    def _with_unknown_rest(self, prompt: ToldPrompt, told: int, hashes: "array[int]") -> _Blocks:
        """A prompt of which only the beginning is known; how long the rest is, its bytes say."""
        in_all = round(len(prompt_bytes(prompt.content)) * self.block_tokens / (self._words * _WORD_BYTES))
        return _Blocks(hashes[: told // self.block_tokens], max(told + 1, in_all), estimated=True)


def _chain(ids: "array[int]", size: int, namespace: Namespace) -> "array[int]":
    """The hashes of all blocks, a shorter one at the end as well."""
    hashes = array("Q")
    full = hash_blocks(ids, size, namespace)
    hashes.frombytes(full.to_bytes())
    rest = ids[len(full) * size :]
    if rest:
        before = full[len(full) - 1].to_bytes(8, "little") if len(full) else repr(namespace).encode()
        hashes.append(_digest(before + rest.tobytes()))
    return hashes


def _named(prompt: BlockIds) -> _Blocks:
    return _Blocks(array("Q", map(_number, prompt.ids)), prompt.tokens, prompt.estimated)


def _number(name: int | str) -> int:
    """An id of a log as a number of 64 bits; other numbers stay what they are."""
    return name if isinstance(name, int) and 0 <= name < 2**64 else _digest(str(name).encode("utf-8", "replace"))


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _words(text: bytes) -> "array[int]":
    words = array("I")
    words.frombytes(text + bytes(-len(text) % _WORD_BYTES))
    return words
