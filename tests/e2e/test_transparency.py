"""The `openai` client, unmodified, gets the same bytes through the router and from the engine itself."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from e2e.processes import engine, router, until_ready

_MODEL = "warmroute-tiny"
_MESSAGES: list[Any] = [
    {"role": "system", "content": "You answer in one line — Grüße, 你好, Δ."},
    {"role": "user", "content": "Which worker holds my prefix?"},
]
_HEADERS = {"x-request-id": "the-same-for-both"}


@pytest.fixture
async def clients() -> AsyncIterator[tuple[AsyncOpenAI, AsyncOpenAI]]:
    async with engine() as worker, router([worker.url]) as gate:
        await until_ready(gate.admin_url, 1)
        made = [AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) for url in (worker.url, gate.url)]
        yield made[0], made[1]
        for client in made:
            await client.close()


async def body_of(client: AsyncOpenAI, endpoint: str, stream: bool) -> bytes:
    arguments: dict[str, Any] = {"model": _MODEL, "max_tokens": 24, "temperature": 0, "extra_headers": _HEADERS}
    if stream:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    if endpoint == "chat":
        asked: Any = client.chat.completions.with_streaming_response.create(messages=_MESSAGES, **arguments)
    else:
        asked = client.completions.with_streaming_response.create(prompt="Which worker holds my prefix?", **arguments)
    async with asked as response:
        return b"".join([chunk async for chunk in response.iter_bytes()])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", ["chat", "completions"])
async def test_answers_are_equal_to_the_byte(
    clients: tuple[AsyncOpenAI, AsyncOpenAI], endpoint: str, stream: bool
) -> None:
    engine_client, router_client = clients
    await body_of(engine_client, endpoint, stream)  # so that both of the next find the prompt cached
    direct = await body_of(engine_client, endpoint, stream)
    routed = await body_of(router_client, endpoint, stream)
    assert direct == routed
    assert b"usage" in direct
    assert (b"data: [DONE]" in direct) == stream


async def test_parsed_streams_are_equal(clients: tuple[AsyncOpenAI, AsyncOpenAI]) -> None:
    texts = []
    for client in clients:
        stream = await client.chat.completions.create(model=_MODEL, messages=_MESSAGES, stream=True, max_tokens=24)
        texts.append([chunk.choices[0].delta.content async for chunk in stream if chunk.choices])
    assert texts[0] == texts[1]
    assert len("".join(part or "" for part in texts[0])) > 10
