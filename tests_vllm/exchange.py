"""One request sent and its answer read: text, ids, usage and the two headers that tell the router's decision."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests_vllm.conversations import Body, Dialect, Request

_WORKER_HEADER = "x-warmroute-worker"
_PREDICTED_HEADER = "x-warmroute-cached-tokens"
_TIMEOUT = aiohttp.ClientTimeout(total=120)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of one request. Token counts are None where nobody told them."""

    label: str
    dialect: Dialect
    status: int
    worker: str | None = None
    predicted: int | None = None
    reported: int | None = None
    prompt_tokens: int = 0
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    problem: str = ""

    @property
    def failed(self) -> bool:
        """No complete answer with its usage came back."""
        return bool(self.problem)


@dataclass(slots=True)
class _Answer:
    """The parts of an answer, gathered from one JSON object or from many chunks."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    reported: int | None = None
    prompt_tokens: int = 0

    def add(self, chunk: Body) -> None:
        for choice in chunk.get("choices", []):
            self._add_choice(choice)
        usage = chunk.get("usage")
        if usage:
            self.prompt_tokens = usage["prompt_tokens"]
            self.reported = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    def _add_choice(self, choice: Body) -> None:
        message = choice.get("message") or choice.get("delta") or {}
        self.text += choice.get("text") or message.get("content") or ""
        self.token_ids += tuple(choice.get("token_ids") or ())
        logprobs = choice.get("logprobs") or {}
        self.logprobs += tuple(logprobs.get("token_logprobs") or ())


async def exchange(session: aiohttp.ClientSession, url: str, request: Request) -> Exchange:
    """Post `request` to the server at `url` and read its whole answer. Never raises for what a server does."""
    try:
        async with session.post(url + request.path, json=request.body, timeout=_TIMEOUT) as response:
            return await _read(request, response)
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
        return Exchange(request.label, request.dialect, 0, problem=f"{type(error).__name__}: {error}")


async def _read(request: Request, response: aiohttp.ClientResponse) -> Exchange:
    if response.status != 200:
        problem = f"status {response.status}: {(await response.text())[:300]}"
        return Exchange(request.label, request.dialect, response.status, problem=problem)
    answer = _Answer()
    async for chunk in _chunks(response):
        answer.add(chunk)
    predicted = response.headers.get(_PREDICTED_HEADER)
    return Exchange(
        label=request.label,
        dialect=request.dialect,
        status=response.status,
        worker=response.headers.get(_WORKER_HEADER),
        predicted=None if predicted is None else int(predicted),
        reported=answer.reported,
        prompt_tokens=answer.prompt_tokens,
        text=answer.text,
        token_ids=answer.token_ids,
        logprobs=answer.logprobs,
        problem="" if answer.reported is not None else "no cached_tokens in the answer's usage",
    )


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[Body]:
    if response.content_type != "text/event-stream":
        yield await response.json()
        return
    ended = False
    async for line in response.content:
        data = line.strip().removeprefix(b"data:").strip()
        if data == b"[DONE]":
            ended = True
        elif data:
            yield _chunk(data)
    if not ended:
        raise ValueError("the stream ended without [DONE]")


def _chunk(data: bytes) -> Body:
    chunk: Any = json.loads(data)
    if not isinstance(chunk, dict) or "error" in chunk:
        raise ValueError(f"error in the stream: {data[:200]!r}")
    return chunk
