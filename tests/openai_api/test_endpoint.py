"""Paths and the endpoints they name."""

import pytest

from warmroute.openai_api import Endpoint, endpoint_of


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
