"""The load generator: plays the workload's conversations against a router and times every answer."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from warmroute.demo.options import MODEL
from warmroute.demo.workload import Agent, Conversation, Turn, Workload, opening

_ANSWER_S = 60.0
_DATA = b"data: "
_DONE = b"[DONE]"


@dataclass(slots=True)
class Answer:
    """One request as the client saw it; times in seconds of its clock, `problem` says what went wrong.

    `worker` is the URL that the router names in `x-warmroute-worker`; tokens are those of the engine's `usage`.
    """

    sent_at: float
    ended_at: float = 0.0
    first_token_at: float | None = None
    text: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    worker: str | None = None
    problem: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    prompt_tokens_details: _Details | None = None


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    """The parts of a `chat.completion.chunk` that are looked at; `error` stands in the place of a broken stream."""

    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Chunk)


async def play(url: str, workload: Workload, on_answer: Callable[[Answer], None]) -> list[Answer]:
    """All answers, in the order of their ends; `on_answer` is told of each. A failed turn ends its conversation."""
    answers: list[Answer] = []

    def note(answer: Answer) -> None:
        answers.append(answer)
        on_answer(answer)

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as all_:
        started_at = time.monotonic()
        for conversation in workload.conversations:
            all_.create_task(_converse(session, conversation, started_at + conversation.starts_at_s, note))
    return answers


def request_body(agent: Agent, messages: list[dict[str, Any]], max_tokens: int) -> dict[str, Any]:
    """A streaming chat completion."""
    return {
        "model": MODEL,
        "messages": messages,
        "tools": agent.tools,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _converse(
    session: aiohttp.ClientSession, conversation: Conversation, start_at: float, note: Callable[[Answer], None]
) -> None:
    messages = opening(conversation.agent)
    await asyncio.sleep(max(0.0, start_at - time.monotonic()))
    for turn in conversation.turns:
        await asyncio.sleep(turn.think_s)
        messages.append({"role": "user", "content": turn.message})
        answer = await _ask(session, conversation.agent, messages, turn)
        note(answer)
        if answer.problem is not None:
            return
        messages.append({"role": "assistant", "content": answer.text})


async def _ask(session: aiohttp.ClientSession, agent: Agent, messages: list[dict[str, Any]], turn: Turn) -> Answer:
    body = msgspec.json.encode(request_body(agent, messages, turn.max_tokens))
    headers = {"content-type": "application/json"}
    answer = Answer(time.monotonic())
    try:
        async with session.post("/v1/chat/completions", data=body, headers=headers) as response:
            await _read(response, answer)
    except TimeoutError:
        answer.problem = f"no whole answer within {_ANSWER_S:g} s"
    except (aiohttp.ClientError, msgspec.DecodeError) as error:
        answer.problem = f"{type(error).__name__}: {error}"
    answer.ended_at = time.monotonic()
    return answer


async def _read(response: aiohttp.ClientResponse, answer: Answer) -> None:
    """Fill `answer` from a stream of server-sent events."""
    answer.worker = response.headers.get("x-warmroute-worker")
    if response.status != 200:
        answer.problem = f"status {response.status}: {(await response.text())[:200]}"
        return
    done = False
    async for line in response.content:
        data = line.strip().removeprefix(_DATA)
        if line.startswith(_DATA) and data != _DONE:
            _take(_decoder.decode(data), answer)
        done = done or data == _DONE
    if not done and answer.problem is None:
        answer.problem = "the stream ended early"


def _take(chunk: _Chunk, answer: Answer) -> None:
    if chunk.error is not None:
        answer.problem = f"error in the stream: {chunk.error}"
    for choice in chunk.choices:
        if choice.delta.content:
            # The first chunk of a stream may carry the role alone: that is no token.
            answer.first_token_at = answer.first_token_at or time.monotonic()
            answer.text += choice.delta.content
    if chunk.usage is not None:
        answer.prompt_tokens = chunk.usage.prompt_tokens
        details = chunk.usage.prompt_tokens_details
        answer.cached_tokens = 0 if details is None else details.cached_tokens
