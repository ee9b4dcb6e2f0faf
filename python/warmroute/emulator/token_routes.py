"""POST /tokenize and /detokenize, as vLLM has them."""

from typing import Any

import msgspec
from aiohttp import web

from warmroute.emulator.body import decoded
from warmroute.emulator.engine_server import SERVER
from warmroute.emulator.refusal import refused
from warmroute.openai_api import Endpoint


class _TokenizeBody(msgspec.Struct):
    model: str | None = None
    messages: list[Any] | None = None
    return_token_strs: bool | None = None


class _DetokenizeBody(msgspec.Struct):
    tokens: list[int]
    model: str | None = None


async def tokenize(request: web.Request) -> web.Response:
    """The ids of a prompt, or of a conversation after the chat template."""
    server = request.app[SERVER]
    raw = await request.read()
    body = decoded(raw, _TokenizeBody)
    server.check_model(body.model)
    endpoint = Endpoint.COMPLETIONS if body.messages is None else Endpoint.CHAT
    _, prompts = await server.reader.read(endpoint, raw)
    if len(prompts) != 1:
        raise refused("One prompt at a time can be tokenized.", param="prompt")
    ids = prompts[0]
    answer = {
        "count": len(ids),
        "max_model_len": server.context_tokens,
        "tokens": ids,
        "token_strs": [server.codec.decode([token]) for token in ids] if body.return_token_strs else None,
    }
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


async def detokenize(request: web.Request) -> web.Response:
    """The text of token ids."""
    server = request.app[SERVER]
    body = decoded(await request.read(), _DetokenizeBody)
    server.check_model(body.model)
    unknown = next((token for token in body.tokens if not 0 <= token < server.codec.vocab_size), None)
    if unknown is not None:
        raise refused(f"Token id {unknown} is out of vocabulary.", param="tokens")
    answer = {"prompt": server.codec.decode(body.tokens)}
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
