"""Bodies of the OpenAI-like endpoints, read into a `Prompt`."""

from warmroute.openai_api.endpoint import endpoint_of, guess_endpoint
from warmroute.openai_api.parse import parse_prompt, read_prompt
from warmroute.openai_api.prompt import (
    ChatContent,
    Content,
    Endpoint,
    JsonObject,
    Match,
    Prompt,
    TextContent,
    TokenContent,
    Untold,
)

__all__ = [
    "ChatContent",
    "Content",
    "Endpoint",
    "JsonObject",
    "Match",
    "Prompt",
    "TextContent",
    "TokenContent",
    "Untold",
    "endpoint_of",
    "guess_endpoint",
    "parse_prompt",
    "read_prompt",
]
