"""Which endpoint a path names, or a body seems to be for."""

from warmroute.openai_api.body import UnreadableBody, read_object
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

# A field that a body of the endpoint has; the first one that is there counts.
_FIELDS = {"messages": Endpoint.CHAT, "prompt": Endpoint.COMPLETIONS, "input": Endpoint.RESPONSES}


def endpoint_of(path: str) -> Endpoint:
    """The endpoint of a request path; a query, a fragment and trailing slashes do not matter."""
    bare = path.partition("?")[0].partition("#")[0].rstrip("/")
    return _ENDPOINTS.get(bare, Endpoint.OTHER)


def guess_endpoint(body: bytes) -> Endpoint:
    """The endpoint that a body without a path is most likely for, by its fields; OTHER where they tell none."""
    try:
        fields = read_object(body)
    except UnreadableBody:
        return Endpoint.OTHER
    return next((endpoint for field, endpoint in _FIELDS.items() if field in fields), Endpoint.OTHER)
