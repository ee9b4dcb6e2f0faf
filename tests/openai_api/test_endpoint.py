"""Paths and the endpoints they name."""

import pytest

from warmroute.openai_api import Endpoint, endpoint_of, guess_endpoint


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/completions", Endpoint.COMPLETIONS),
        ("/v1/chat/completions", Endpoint.CHAT),
        ("/v1/chat/completions/", Endpoint.CHAT),
        ("/v1/chat/completions?api-version=1", Endpoint.CHAT),
        ("/v1/chat/completions/?a=/v1/embeddings", Endpoint.CHAT),
        ("/v1/embeddings#top", Endpoint.EMBEDDINGS),
        ("/v1/responses", Endpoint.RESPONSES),
        ("/v1/messages", Endpoint.MESSAGES),
        ("/generate", Endpoint.GENERATE),
        ("/inference/v1/generate", Endpoint.TOKENS),
        ("/v1/generate", Endpoint.OTHER),
        ("/v1/messages/count_tokens", Endpoint.OTHER),
        ("/v1/chat/completions/render", Endpoint.OTHER),
        ("/v1/responses/resp_1", Endpoint.OTHER),
        ("/tokenize", Endpoint.OTHER),
        ("/V1/completions", Endpoint.OTHER),
        ("/", Endpoint.OTHER),
        ("", Endpoint.OTHER),
    ],
)
def test_path_names_its_endpoint(path: str, endpoint: Endpoint) -> None:
    assert endpoint_of(path) is endpoint


@pytest.mark.parametrize(
    ("body", "endpoint"),
    [
        (b'{"messages": [], "prompt": ""}', Endpoint.CHAT),
        (b'{"prompt": null}', Endpoint.COMPLETIONS),
        (b'{"input": "x", "temperature": NaN}', Endpoint.RESPONSES),
        (b'{"model": "m"}', Endpoint.OTHER),
        (b'["messages"]', Endpoint.OTHER),
        (b"messages", Endpoint.OTHER),
        (b"[" * 100_000, Endpoint.OTHER),
        (b"", Endpoint.OTHER),
    ],
)
def test_a_body_without_a_path_is_told_by_its_fields(body: bytes, endpoint: Endpoint) -> None:
    assert guess_endpoint(body) is endpoint
