"""Asks a running engine for the tokens of a body, on every page that it has for it.

    POST /tokenize                      vLLM and SGLang: a text, or a conversation after the chat template
    POST /v1/chat/completions/render    vLLM: the body of the endpoint, as it is; also for completions, responses and
                                        messages; only with `--enable-scale-out`, or under `vllm launch render`

Sources: as `warmroute.tokenizer.engine_questions`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import aiohttp
import msgspec

from warmroute.cli.tokens_prompt import ToldBody
from warmroute.errors import WorkerUnreachable
from warmroute.openai_api import Content, Endpoint, TokenContent
from warmroute.tokenizer import Dialect
from warmroute.tokenizer.engine_questions import (
    RENDER_PATHS,
    TOKENIZE_PATH,
    rendered_ids,
    tokenize_body,
    tokenized_ids,
    without_tensors,
)

# Whose conversations /tokenize does not render as they do.
_NOT_TOKENIZED = (Endpoint.RESPONSES, Endpoint.MESSAGES, Endpoint.TOKENS, Endpoint.OTHER)
_TIMEOUT = aiohttp.ClientTimeout(total=60.0, connect=5.0)
_CLOSED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_LONGEST_REASON = 300


class Answered(StrEnum):
    """What became of a question."""

    TOLD = "told"
    MISSING = "missing"
    """The engine has no such page."""
    REFUSED = "refused"
    """It does not take this body."""
    FAILED = "failed"
    """It did not answer, or not what it should."""


@dataclass(frozen=True, slots=True)
class Question:
    """A POST to the engine; `prompts` are the prompts of the body, by their place in it, that it is about."""

    path: str
    body: bytes
    prompts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """The ids of each prompt asked for, or why there are none."""

    question: Question
    answered: Answered
    ids: Sequence[Sequence[int]] = ()
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class AskedEngine:
    """An engine at a URL, which is asked with these headers; `model`: its name for the model, if not the body's."""

    session: aiohttp.ClientSession
    url: str
    headers: Sequence[tuple[str, str]] = ()
    model: str | None = None

    async def ask(self, body: ToldBody) -> list[EngineAnswer]:
        """Everything there is to ask for a body, one after the other. Raises WorkerUnreachable."""
        return [await self._ask(question) for question in questions(body, self.model)]

    async def _ask(self, question: Question) -> EngineAnswer:
        """Once more where a kept connection was closed meanwhile, as servers do after an error of their own."""
        try:
            return await self._post(question)
        except _CLOSED:
            return await self._post(question, last=True)

    async def _post(self, question: Question, last: bool = False) -> EngineAnswer:
        headers = [("content-type", "application/json"), *self.headers]
        try:
            async with self.session.post(
                self.url + question.path, data=question.body, headers=headers, timeout=_TIMEOUT
            ) as answer:
                return _read(question, answer.status, await answer.read())
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise WorkerUnreachable(f"'{self.url}' is no URL; write http://HOST:PORT") from error
        except aiohttp.ClientConnectorError as error:
            raise WorkerUnreachable(
                f"no engine answers at {self.url} ({error}); is it up, and is its port the one of its HTTP API?"
            ) from error
        except _CLOSED as error:
            if not last:
                raise
            return EngineAnswer(question, Answered.FAILED, detail=f"it closed the connection: {error}")
        except (aiohttp.ClientError, TimeoutError) as error:
            return EngineAnswer(question, Answered.FAILED, detail=str(error) or "it took too long")


def questions(body: ToldBody, model: str | None = None) -> Iterator[Question]:
    """What to ask for a body; `model` takes the place of the model that it names."""
    prompt = body.prompt
    served = model or prompt.model
    raw = body.named.body if model is None else _with_model(body.named.body, model)
    if prompt.exact and prompt.endpoint not in _NOT_TOKENIZED:
        for index, content in enumerate(prompt.contents):
            if not isinstance(content, TokenContent):
                yield Question(TOKENIZE_PATH, _tokenize_body(content, body, raw, served), (index,))
    path = RENDER_PATHS.get(prompt.endpoint)
    if path is not None and body.dialect is Dialect.VLLM:
        yield Question(path, without_tensors(raw), tuple(range(len(prompt.contents))))


def _tokenize_body(content: Content, body: ToldBody, raw: bytes, model: str | None) -> bytes:
    # SGLang renders a conversation as its own endpoint does if it gets that endpoint's fields, all of them.
    if body.dialect is Dialect.SGLANG and body.endpoint is Endpoint.CHAT:
        return raw
    return tokenize_body(content, model, body.dialect)


def _with_model(raw: bytes, model: str) -> bytes:
    return json.dumps(json.loads(raw) | {"model": model}).encode()


def _read(question: Question, status: int, data: bytes) -> EngineAnswer:
    if status >= 400:
        return EngineAnswer(question, _unanswered(status, data), detail=_reason(status, data))
    try:
        ids = _ids(question, data)
    except msgspec.DecodeError as error:
        return EngineAnswer(question, Answered.FAILED, detail=f"its answer is not understood: {error}")
    if len(ids) != len(question.prompts) and question.prompts:
        detail = f"it answers for {len(ids)} prompts, where {len(question.prompts)} were asked for"
        return EngineAnswer(question, Answered.FAILED, detail=detail)
    return EngineAnswer(question, Answered.TOLD, ids)


def _ids(question: Question, data: bytes) -> Sequence[Sequence[int]]:
    return [tokenized_ids(data)] if question.path == TOKENIZE_PATH else rendered_ids(data)


def _unanswered(status: int, data: bytes) -> Answered:
    """vLLM answers 403 for its render pages where they are switched off; 404 is also its word for an unknown model."""
    if status in (403, 405, 501) or (status == 404 and b"model" not in data.lower()):
        return Answered.MISSING
    return Answered.FAILED if status >= 500 else Answered.REFUSED


def _reason(status: int, data: bytes) -> str:
    """The engine's own words, where it has any."""
    try:
        answer = msgspec.json.decode(data)
        error = answer.get("error", answer)
        message = error if isinstance(error, str) else error.get("message") or error.get("detail")
    except (msgspec.DecodeError, AttributeError):
        message = None
    return f"{status}: {message or data.decode('utf-8', 'replace').strip() or 'no reason'}"[:_LONGEST_REASON]
