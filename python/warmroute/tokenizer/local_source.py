"""Tokens from a tokenizer in this process."""

from dataclasses import replace

from warmroute.errors import TemplateError
from warmroute.openai_api import ChatContent, Prompt
from warmroute.tokenizer.dialect import Dialect
from warmroute.tokenizer.encode_pool import EncodePool
from warmroute.tokenizer.local import LocalTokenizer
from warmroute.tokenizer.source import Original
from warmroute.tokenizer.text_size import is_too_long, prompt_size
from warmroute.tokenizer.token_ids import NoTokens, TokenIds, given_ids

# 2,000 characters that were never seen take 0.35 to 0.65 ms to render and encode, over eleven models' tokenizers (on
# 2 shared cores); the hop to a thread and back would cost a third of that.
_INLINE_CHARACTERS = 2_000


class LocalTokenSource:
    """A tokenizer in this process: small prompts on the loop, larger ones in a thread of `pool`.

    `dialect`: whose rendering of a conversation is imitated.
    """

    def __init__(self, tokenizer: LocalTokenizer, pool: EncodePool, dialect: Dialect = Dialect.VLLM) -> None:
        self._tokenizer = tokenizer
        self._dialect = dialect
        self._pool = pool

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        """See TokenSource."""
        given = given_ids(prompt.contents)
        if given is not None:
            return given
        try:
            return await self._encode(prompt, original)
        except TemplateError:
            return why_not_rendered(prompt)

    async def _encode(self, prompt: Prompt, original: Original | None) -> TokenIds | NoTokens:
        # A template of the client's own may do any work within its bound, however short the prompt.
        if prompt_size(prompt.contents, original) <= _INLINE_CHARACTERS and not brings_template(prompt):
            return self._tell(prompt)
        if is_too_long(prompt.contents, original):
            return NoTokens.TOO_LONG
        if self._pool.is_full:
            return NoTokens.BACKLOG
        return await self._pool.run(lambda: self._tell(prompt))

    def _tell(self, prompt: Prompt) -> TokenIds:
        told = self._tokenizer.encode(prompt, self._dialect)
        return told if prompt.exact else replace(told, complete=False)


def why_not_rendered(prompt: Prompt) -> NoTokens:
    """Whose template it was that failed on a prompt."""
    return NoTokens.CLIENT_TEMPLATE if brings_template(prompt) else NoTokens.TEMPLATE


def brings_template(prompt: Prompt) -> bool:
    """Whether a conversation of the prompt is to be rendered by a template of the client's own."""
    return any(isinstance(content, ChatContent) and content.chat_template is not None for content in prompt.contents)
