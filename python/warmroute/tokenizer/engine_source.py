"""Tokens from the engines' own pages, for what cannot be told here."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

import aiohttp
import msgspec

from warmroute.openai_api import Prompt
from warmroute.tokenizer.breaker import EngineRecord
from warmroute.tokenizer.dialect import Dialect
from warmroute.tokenizer.engine_questions import Question, questions
from warmroute.tokenizer.source import Original
from warmroute.tokenizer.text_size import is_too_long
from warmroute.tokenizer.token_ids import NoTokens, TokenIds, given_ids

# Engines that are asked for one prompt, when the first of them fails.
_MOST_ENGINES = 2
# Engines that are remembered; addresses come and go.
_MOST_RECORDS = 4096
# A prompt of a million tokens, with their texts, has some tens of megabytes.
_LARGEST_ANSWER = 128 << 20
_JSON = ("content-type", "application/json")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that can be asked: its base URL without a trailing slash, and what it is."""

    url: str
    dialect: Dialect = Dialect.VLLM


EnginesOf = Callable[[str | None], Sequence[Engine]]
"""The engines that serve a model (None: any), the one to ask first at the head."""


class _Answer(Enum):
    """An answer without tokens."""

    MISSING = auto()
    REFUSED = auto()
    FAILED = auto()


class EngineTokenSource:
    """Asks an engine that serves the model: `/tokenize`, or vLLM's render pages with the client's own body.

    At most `limit` questions are under way at once, over all engines. An engine that fails is left alone for a while,
    one without a page is not asked for it again for some minutes.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        engines: EnginesOf,
        timeout_s: float,
        clock: Callable[[], float],
        limit: int = 32,
    ) -> None:
        """`clock` gives seconds, monotonic."""
        self._session = session
        self._engines = engines
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._clock = clock
        self._free = asyncio.Semaphore(limit)
        self._records: dict[str, EngineRecord] = {}

    async def tokens(self, prompt: Prompt, original: Original | None = None) -> TokenIds | NoTokens:
        """See TokenSource. Of a batch only the first content is asked for; the others are judged by their length."""
        given = given_ids(prompt.contents)
        if given is not None:
            return given
        if is_too_long(prompt.contents, original):
            return NoTokens.TOO_LONG
        engines = self._engines(prompt.model)
        if not engines:
            return NoTokens.NO_WORKER
        async with self._free:
            return await self._ask_in_turn(engines, prompt, original)

    async def _ask_in_turn(
        self, engines: Sequence[Engine], prompt: Prompt, original: Original | None
    ) -> TokenIds | NoTokens:
        verdict, failed = NoTokens.NO_TOKENIZER, 0
        for engine in engines:
            answer = await self._ask_engine(engine, questions(prompt, engine.dialect, original), original)
            if isinstance(answer, TokenIds) or answer is NoTokens.ENGINE_REFUSED:
                return answer
            if answer is not NoTokens.NO_TOKENIZER:
                verdict = answer
            failed += answer is NoTokens.ENGINE_FAILED
            if failed >= _MOST_ENGINES:
                break
        return verdict

    async def _ask_engine(
        self, engine: Engine, asked: Sequence[Question], original: Original | None
    ) -> TokenIds | NoTokens:
        record = self._record(engine.url)
        for question in asked:
            now = self._clock()
            if record.lacks(question.path, now):
                continue
            if not record.breaker.allows(now):
                return NoTokens.ENGINE_AVOIDED
            answer = await self._ask(engine.url, question, record, () if original is None else original.headers)
            if answer is _Answer.MISSING:
                record.note_missing(question.path, self._clock())
            elif answer is _Answer.REFUSED:
                return NoTokens.ENGINE_REFUSED
            else:
                return NoTokens.ENGINE_FAILED if answer is _Answer.FAILED else answer
        return NoTokens.NO_TOKENIZER

    async def _ask(
        self, url: str, question: Question, record: EngineRecord, headers: Sequence[tuple[str, str]]
    ) -> TokenIds | _Answer:
        """One question; too late an answer, for which nobody waits any more, is a failure as well."""
        answer: TokenIds | _Answer = _Answer.FAILED
        record.breaker.begin()
        try:
            answer = await self._post(url, question, headers)
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError):
            pass  # told by the answer: FAILED
        finally:
            if answer is _Answer.FAILED:
                record.breaker.failed(self._clock())
            else:
                record.breaker.succeeded()
        return answer

    async def _post(self, url: str, question: Question, headers: Sequence[tuple[str, str]]) -> TokenIds | _Answer:
        async with self._session.post(
            url + question.path,
            data=question.body,
            headers=[_JSON, *headers],
            timeout=self._timeout,
            allow_redirects=False,
        ) as answer:
            body = await _bounded(answer)
            if body is None or answer.status // 100 == 3 or (answer.status >= 500 and answer.status != 501):
                return _Answer.FAILED
            if answer.status >= 400:
                return _Answer.MISSING if _is_missing(answer.status, body) else _Answer.REFUSED
            return question.read(body)

    def _record(self, url: str) -> EngineRecord:
        record = self._records.get(url)
        if record is None:
            if len(self._records) >= _MOST_RECORDS:
                del self._records[next(iter(self._records))]
            record = self._records[url] = EngineRecord()
        return record


async def _bounded(answer: aiohttp.ClientResponse) -> bytes | None:
    """The body; None for one that is larger than the ids of any prompt."""
    try:
        await answer.content.readexactly(_LARGEST_ANSWER + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial
    return None


def _is_missing(status: int, body: bytes) -> bool:
    """Whether there is no such page; vLLM answers 403 for its render pages where they are switched off, and 404 with
    an error object for a model that it does not serve."""
    return status in (403, 405, 501) or (status == 404 and b'"error"' not in body)
