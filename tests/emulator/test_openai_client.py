"""The unmodified `openai` client against an emulated engine."""

import openai
import pytest

from emulator.serving import serving

MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [
    {"role": "system", "content": "You answer in words."},
    {"role": "user", "content": "Which worker holds my prefix?"},
]


def client_of(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0)


async def test_chat_whole_and_streamed() -> None:
    async with serving() as served, client_of(served.url) as client:
        whole = await client.chat.completions.create(model="warmroute-tiny", messages=MESSAGES, max_tokens=20)
        stream = await client.chat.completions.create(
            model="warmroute-tiny",
            messages=MESSAGES,
            max_completion_tokens=20,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == whole.usage.completion_tokens == 20
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 16 * ((usage.prompt_tokens - 1) // 16)


async def test_completions_whole_and_streamed() -> None:
    async with serving() as served, client_of(served.url) as client:
        whole = await client.completions.create(model="warmroute-tiny", prompt="One, two,", max_tokens=20)
        stream = await client.completions.create(model="warmroute-tiny", prompt="One, two,", max_tokens=20, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"


async def test_responses_whole_and_streamed() -> None:
    async with serving() as served, client_of(served.url) as client:
        whole = await client.responses.create(model="warmroute-tiny", input="Hello?", max_output_tokens=9)
        stream = await client.responses.create(model="warmroute-tiny", input="Hello?", max_output_tokens=9, stream=True)
        events = [event async for event in stream]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(deltas) == 9
    assert "".join(deltas) == whole.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.incomplete"


async def test_embeddings() -> None:
    async with serving() as served, client_of(served.url) as client:
        answer = await client.embeddings.create(model="warmroute-tiny", input=["alpha", "beta"])
    assert [len(item.embedding) for item in answer.data] == [64, 64]
    assert sum(value * value for value in answer.data[0].embedding) == pytest.approx(1, rel=1e-5)


async def test_errors_are_the_clients_own() -> None:
    async with serving() as served, client_of(served.url) as client:
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.completions.create(model="gpt", prompt="a")
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            await client.completions.create(model="warmroute-tiny", prompt="a", max_tokens=10**6)
