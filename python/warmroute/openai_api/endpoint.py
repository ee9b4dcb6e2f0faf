"""Which endpoint a path names."""

from warmroute.openai_api.prompt import Endpoint

_ENDPOINTS = {
    "/v1/completions": Endpoint.COMPLETIONS,
    "/v1/chat/completions": Endpoint.CHAT,
    "/v1/embeddings": Endpoint.EMBEDDINGS,
    "/v1/responses": Endpoint.RESPONSES,
    "/v1/messages": Endpoint.MESSAGES,
    "/generate": Endpoint.GENERATE,
    "/inference/v1/generate": Endpoint.TOKENS,
}


def endpoint_of(path: str) -> Endpoint:
    """The endpoint of a request path; a query, a fragment and trailing slashes do not matter."""
    bare = path.partition("?")[0].partition("#")[0].rstrip("/")
    return _ENDPOINTS.get(bare, Endpoint.OTHER)
