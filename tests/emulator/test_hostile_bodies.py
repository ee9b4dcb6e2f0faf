"""Whatever a client sends, it gets an answer of the API's shape and the engine goes on."""

import json

import pytest

from emulator.serving import serving

PATHS = ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/tokenize"]
BODIES = [
    b"",
    b"null",
    b"\xff\xfe",
    b'"text"',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"prompt": "\\ud800", "input": "\\ud800", "messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"prompt": NaN}',
    b'{"prompt": [1.5], "input": [1.5], "messages": [1.5]}',
    b'{"prompt": [-1], "input": [-1]}',
    b'{"prompt": [4294967296], "input": [18446744073709551616]}',
    b'{"prompt": [[]], "input": [[]], "messages": [[]]}',
    b'{"prompt": "a", "input": "a", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1e400}',
    b'{"prompt": "a", "input": "a", "messages": [{"role": "user"}], "max_tokens": 99999999999999999999999}',
    b'{"prompt": "a", "input": "a", "messages": [{"role": "user"}], "model": 5}',
    b'{"prompt": "a", "input": "a", "messages": [{"role": "user"}], "stream": "yes"}',
    b'{"messages": [{"role": "user", "content": "a"}], "chat_template": "{% for %}"}',
    b'{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"messages": 5}}',
    b'{"messages": [{"content": 5}]}',
    b'{"messages": [{"role": "tool"}], "tools": [{}]}',
]


@pytest.mark.parametrize("path", PATHS)
async def test_every_body_gets_an_answer(path: str) -> None:
    async with serving() as client:
        for body in BODIES:
            status, raw = await client.raw(path, body)
            assert status in (200, 400), (status, body[:60], raw)
            if status == 400:
                error = json.loads(raw)["error"]
                assert error["code"] == 400
                assert error["message"]
        assert await client.metric("vllm:num_requests_running") == 0
        assert await client.metric("vllm:kv_cache_usage_perc") == 0
