"""vLLM's HTTP API over real sockets."""

import base64
import json
from array import array
from typing import Any

import pytest

from emulator.serving import serving
from warmroute.engine_model import EngineOptions

CHAT = {"messages": [{"role": "user", "content": "Which worker holds my prefix?"}], "max_tokens": 12}
LONG = "one two three four five six seven eight " * 40


async def test_a_completion_and_its_repetition() -> None:
    async with serving() as client:
        body = {"model": "warmroute-tiny", "prompt": LONG, "max_tokens": 9}
        first = await client.post("/v1/completions", body)
        second = await client.post("/v1/completions", body)
    usage = first["usage"]
    assert usage["completion_tokens"] == 9
    assert usage["total_tokens"] == usage["prompt_tokens"] + 9
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    expected = (usage["prompt_tokens"] - 1) // 16 * 16
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == expected
    assert first["choices"] == second["choices"]
    assert first["choices"][0]["finish_reason"] == "length"
    assert len(first["choices"][0]["text"].split()) >= 7


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("stream", [False, True])
async def test_equal_requests_get_equal_bytes_from_two_engines(path: str, stream: bool) -> None:
    asked: dict[str, Any] = {"stream": stream, "max_tokens": 30}
    if stream:
        asked["stream_options"] = {"include_usage": True}
    match path:
        case "/v1/completions":
            asked["prompt"] = LONG
        case "/v1/responses":
            asked |= {"input": LONG, "max_output_tokens": 30}
        case _:
            asked["messages"] = [{"role": "user", "content": LONG}]
    raw = json.dumps(asked).encode()
    async with serving() as one, serving(seed=2) as other:
        answers = [await one.raw(path, raw), await other.raw(path, raw)]
        warm = await one.raw(path, raw)
    assert answers[0] == answers[1]
    assert answers[0][0] == 200
    assert warm != answers[0]  # the cached tokens are told
    assert len(warm[1].split(b"text")) == len(answers[0][1].split(b"text"))


async def test_a_stream_says_what_the_whole_answer_says() -> None:
    async with serving() as client:
        whole = await client.post("/v1/chat/completions", CHAT)
        streamed = await client.raw("/v1/chat/completions", json.dumps({**CHAT, "stream": True}).encode())
    events = streamed[1].decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(chunks) == 1 + 12  # one event per token
    pieces = [chunk["choices"][0]["delta"]["content"] for chunk in chunks]
    assert "".join(pieces) == whole["choices"][0]["message"]["content"]
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * 12 + ["length"]
    assert not any("usage" in chunk for chunk in chunks)


async def test_the_next_turn_finds_prompt_and_answer_cached() -> None:
    system = {"role": "system", "content": LONG}
    async with serving() as client:
        messages = [system, {"role": "user", "content": "Go on."}]
        first = await client.post("/v1/chat/completions", {"messages": messages, "max_tokens": 100})
        answer = first["choices"][0]["message"]["content"]
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "And then?"}]
        second = await client.post("/v1/chat/completions", {"messages": messages, "max_tokens": 5})
    computed = first["usage"]["total_tokens"] - 1
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == computed // 16 * 16


async def test_an_answer_ends_by_itself_unless_told_otherwise() -> None:
    async with serving(answer_tokens=20) as client:
        free = await client.post("/v1/completions", {"prompt": "a", "max_tokens": 500})
        forced = await client.post("/v1/completions", {"prompt": "a", "max_tokens": 500, "ignore_eos": True})
        chat = await client.post("/v1/chat/completions", {"messages": CHAT["messages"]})
        default = await client.post("/v1/completions", {"prompt": "b"})
    assert free["choices"][0]["finish_reason"] == "stop"
    assert 10 <= free["usage"]["completion_tokens"] <= 30
    assert forced["usage"]["completion_tokens"] == 500
    assert forced["choices"][0]["text"].startswith(free["choices"][0]["text"])
    assert chat["choices"][0]["finish_reason"] == "stop"
    assert default["usage"]["completion_tokens"] <= 16


async def test_batches_of_prompts_as_text_and_as_ids() -> None:
    async with serving() as client:
        ids = (await client.post("/tokenize", {"prompt": "alpha beta"}))["tokens"]
        batch = await client.post("/v1/completions", {"prompt": ["alpha beta", "gamma"], "max_tokens": 4})
        as_ids = await client.post("/v1/completions", {"prompt": ids, "max_tokens": 4})
        status, stream = await client.raw(
            "/v1/completions", json.dumps({"prompt": [ids, [5, 6]], "max_tokens": 2, "stream": True}).encode()
        )
    assert [choice["index"] for choice in batch["choices"]] == [0, 1]
    assert batch["usage"]["completion_tokens"] == 8
    assert as_ids["choices"][0]["text"] == batch["choices"][0]["text"]
    assert status == 200
    assert stream.count(b'"index":0') == stream.count(b'"index":1') == 2


async def test_token_ids_are_returned_where_asked_for() -> None:
    async with serving() as client:
        answer = await client.post("/v1/chat/completions", {**CHAT, "return_token_ids": True})
        ids = await client.post("/tokenize", {"messages": CHAT["messages"]})
        text = await client.post("/detokenize", {"tokens": answer["choices"][0]["token_ids"]})
    assert answer["prompt_token_ids"] == ids["tokens"]
    assert ids["count"] == len(ids["tokens"]) == answer["usage"]["prompt_tokens"]
    assert text["prompt"] == answer["choices"][0]["message"]["content"]


async def test_the_messages_api_splits_the_prompt_by_the_cache() -> None:
    asked = {"model": "warmroute-tiny", "messages": [{"role": "user", "content": LONG}], "max_tokens": 3}
    async with serving() as client:
        total = (await client.post("/tokenize", {"messages": asked["messages"]}))["count"]
        cold = (await client.post("/v1/messages", asked))["usage"]
        warm = (await client.post("/v1/messages", asked))["usage"]
        _, stream = await client.raw("/v1/messages", json.dumps({**asked, "stream": True}).encode())
    for usage in (cold, warm):
        parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        assert sum(usage[part] for part in parts) == total
    assert (cold["cache_read_input_tokens"], cold["cache_creation_input_tokens"]) == (0, total // 16 * 16)
    assert warm["cache_read_input_tokens"] == (total - 1) // 16 * 16
    events = [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: ")]
    assert events[0]["message"]["usage"] == {"input_tokens": total, "output_tokens": 0}
    assert events[-2]["usage"] == warm
    assert [event["type"] for event in events].count("content_block_delta") == 3


async def test_tools_are_part_of_the_prompt() -> None:
    tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
    async with serving() as client:
        plain = await client.post("/tokenize", {"messages": CHAT["messages"]})
        tools = await client.post("/tokenize", {"messages": CHAT["messages"], "tools": [tool]})
        answer = await client.post("/v1/chat/completions", {**CHAT, "tools": [tool]})
    assert tools["count"] > plain["count"]
    assert answer["usage"]["prompt_tokens"] == tools["count"]


async def test_a_salt_keeps_tenants_apart() -> None:
    async with serving() as client:
        cached = [
            (await client.post("/v1/completions", {"prompt": LONG, "max_tokens": 1, **salt}))["usage"]
            for salt in ({}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"cache_salt": "a"})
        ]
    hits = [usage["prompt_tokens_details"]["cached_tokens"] for usage in cached]
    assert hits[:3] == [0, 0, 0]
    assert hits[3] > 0


async def test_embeddings_depend_on_the_input_alone() -> None:
    async with serving() as client, serving(seed=9) as other:
        body = {"input": ["alpha", "beta"]}
        floats = await client.post("/v1/embeddings", body)
        coded = await other.post("/v1/embeddings", {**body, "encoding_format": "base64"})
    assert len(floats["data"]) == 2
    vectors = [array("f", item["embedding"]) for item in floats["data"]]
    assert vectors == [array("f", base64.b64decode(item["embedding"])) for item in coded["data"]]
    assert vectors[0] != vectors[1]
    assert floats["usage"]["total_tokens"] == floats["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/completions", b'{"prompt": "a", "max_tok', 400, None),
        ("/v1/completions", b"[]", 400, None),
        ("/v1/completions", b"{}", 400, None),
        ("/v1/completions", b'{"prompt": ""}', 400, "prompt"),
        ("/v1/completions", b'{"prompt": [999999]}', 400, "prompt"),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 0}', 400, "max_tokens"),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 100000}', 400, "input_tokens"),
        ("/v1/completions", b'{"prompt": "a", "n": 2}', 400, "n"),
        ("/v1/completions", b'{"prompt": "a", "stream_options": {}}', 400, "stream_options"),
        ("/v1/completions", b'{"prompt": "a", "echo": true}', 400, "echo"),
        ("/v1/completions", b'{"prompt": "a", "model": "gpt"}', 404, "model"),
        ("/v1/chat/completions", b'{"messages": []}', 400, None),
        ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}', 400, None),
        ("/v1/embeddings", b'{"input": "a", "dimensions": 3}', 400, "dimensions"),
        ("/detokenize", b'{"tokens": [-1]}', 400, "tokens"),
        ("/tokenize", b'{"prompt": ["a", "b"]}', 400, "prompt"),
        ("/v1/nothing", b"{}", 404, None),
        ("/health", b"{}", 405, None),
    ],
)
async def test_errors_have_the_shape_of_the_api(path: str, body: bytes, status: int, param: str | None) -> None:
    async with serving() as client:
        got, raw = await client.raw(path, body)
        assert await client.metric("vllm:num_requests_running") == 0
    error = json.loads(raw)["error"]
    assert got == status == error["code"]
    assert error["param"] == param
    assert error["message"]
    assert error["type"]


async def test_a_prompt_as_long_as_the_context_leaves_no_room() -> None:
    async with serving(EngineOptions(num_blocks=4)) as client:
        ids = list(range(5, 5 + 64))
        error = await client.post("/v1/completions", {"prompt": ids}, status=400)
        answer = await client.post("/v1/completions", {"prompt": ids[:63]})
    assert "maximum context length is 64 tokens" in error["error"]["message"]
    assert answer["usage"]["completion_tokens"] == 1


async def test_what_a_router_asks_before_the_first_request() -> None:
    async with serving(EngineOptions(block_size=32, num_blocks=100), served_model_name="qwen") as client:
        models = await client.get("/v1/models")
        metrics = await client.text("/metrics")
        version = await client.get("/version")
        async with client.session.get(client.url + "/health") as health:
            assert (health.status, await health.read()) == (200, b"")
    assert [(model["id"], model["max_model_len"]) for model in models["data"]] == [("qwen", 3200)]
    config = next(line for line in metrics.splitlines() if line.startswith("vllm:cache_config_info"))
    assert 'block_size="32"' in config
    assert 'num_gpu_blocks="100"' in config
    assert version["version"].startswith("0.33.0")


async def test_metrics_count_requests_and_tokens() -> None:
    async with serving() as client:
        for _ in range(2):
            await client.post("/v1/completions", {"prompt": LONG, "max_tokens": 5})
        prompt_tokens = await client.metric("vllm:prompt_tokens_total")
        assert await client.metric("vllm:prefix_cache_queries_total") == prompt_tokens
        cached = (prompt_tokens / 2 - 1) // 16 * 16
        assert await client.metric("vllm:prefix_cache_hits_total") == cached
        assert await client.metric("vllm:prompt_tokens_cached_total") == cached
        assert await client.metric("vllm:generation_tokens_total") == 10
        assert await client.metric("vllm:request_success_total") == 2
        assert await client.metric("vllm:time_to_first_token_seconds_count") == 2
        assert await client.metric("vllm:inter_token_latency_seconds_count") == 8
        assert await client.metric("vllm:num_requests_running") == 0
