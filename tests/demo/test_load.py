"""The load generator against a server whose answers are known."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from warmroute.demo.load import Answer, play
from warmroute.demo.workload import WorkloadShape, build_workload

Serve = Callable[[Callable[[dict[str, Any]], list[str]]], Awaitable[str]]

SHAPE = WorkloadShape(agents=2, conversations_per_agent=1, turns=3, rules=2, tools=1, think_s=(0.0, 0.01), ramp_s=0.01)
ROLE = '{"choices": [{"delta": {"role": "assistant", "content": ""}}]}'
WORD = '{"choices": [{"delta": {"content": "hello "}}]}'
USAGE = '{"choices": [], "usage": {"prompt_tokens": 50, "prompt_tokens_details": {"cached_tokens": 32}}}'
WHOLE = [ROLE, WORD, WORD, USAGE, "[DONE]"]
PAUSE_S = 0.1


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """A server that streams the chunks that a function gives for each body, with a pause after the role."""
    servers: list[TestServer] = []

    async def start(chunks: Callable[[dict[str, Any]], list[str]]) -> str:
        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"x-warmroute-worker": "http://worker"})
            lines = chunks(await request.json())
            if not lines:
                return web.Response(status=503, text="no worker is ready")
            await response.prepare(request)
            for chunk in lines:
                await response.write(f"data: {chunk}\n\n".encode())
                await asyncio.sleep(PAUSE_S if chunk == ROLE else 0)
            return response

        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("")).rstrip("/")

    yield start
    for server in servers:
        await server.close()


async def played(url: str) -> list[Answer]:
    noted: list[Answer] = []
    answers = await play(url, build_workload(SHAPE, 0), noted.append)
    assert noted == answers
    return answers


async def test_every_turn_carries_the_answers_before_it(serve: Serve) -> None:
    bodies: list[dict[str, Any]] = []

    def chunks(body: dict[str, Any]) -> list[str]:
        bodies.append(body)
        return WHOLE

    answers = await played(await serve(chunks))
    assert len(answers) == 6
    assert [answer.problem for answer in answers] == [None] * 6
    assert {answer.text for answer in answers} == {"hello hello "}
    assert {(answer.prompt_tokens, answer.cached_tokens) for answer in answers} == {(50, 32)}
    longest = max(bodies, key=lambda body: len(body["messages"]))
    roles = [message["role"] for message in longest["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert longest["messages"][2]["content"] == "hello hello "
    assert longest["stream"] is True
    assert longest["tools"]


async def test_the_first_token_is_the_first_with_content(serve: Serve) -> None:
    for answer in await played(await serve(lambda body: WHOLE)):
        assert answer.first_token_at is not None
        assert answer.first_token_at - answer.sent_at >= PAUSE_S
        assert answer.ended_at >= answer.first_token_at


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        ([], "status 503: no worker is ready"),
        ([ROLE, WORD], "the stream ended early"),
        ([ROLE, '{"error": {"message": "worker died"}}'], "worker died"),
        ([ROLE, "{"], "DecodeError"),
    ],
)
async def test_a_failed_turn_says_why_and_ends_its_conversation(serve: Serve, chunks: list[str], problem: str) -> None:
    answers = await played(await serve(lambda body: chunks))
    assert len(answers) == 2
    for answer in answers:
        assert answer.problem is not None
        assert problem in answer.problem


async def test_a_router_that_is_gone_is_a_problem_and_no_crash(unused_tcp_port: int) -> None:
    answers = await played(f"http://127.0.0.1:{unused_tcp_port}")
    assert all(answer.problem is not None for answer in answers)
