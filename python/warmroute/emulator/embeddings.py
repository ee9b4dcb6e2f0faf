"""POST /v1/embeddings: the cost of a real one, and a vector that depends on the prompt alone."""

import base64
import random
from array import array
from contextlib import ExitStack
from typing import Any

import msgspec
from aiohttp import web

from warmroute.emulator.body import decoded, read_body
from warmroute.emulator.engine_server import SERVER, EngineServer
from warmroute.emulator.refusal import refused
from warmroute.openai_api import Endpoint

_DIMENSIONS = 64
_NO_ANSWER = [0]


class _Encoding(msgspec.Struct):
    encoding_format: str | None = None
    dimensions: int | None = None


async def embeddings(request: web.Request) -> web.Response:
    """One vector per input, after the prefill that a pooling model would need for it."""
    server = request.app[SERVER]
    raw = await request.read()
    server.check_model(read_body(raw).model)
    encoding = _read_encoding(raw)
    prompt, prompts = await server.reader.read(Endpoint.EMBEDDINGS, raw)
    with ExitStack() as held:
        generations = []
        for ids in prompts:
            server.check_length(len(ids), len(_NO_ANSWER))
            engine = server.engine_for(request)
            generations.append(held.enter_context(engine.generation(ids, _NO_ANSWER, prompt.namespace)))
        for generation in generations:
            await generation.beyond(0)
    data = [
        {"index": index, "object": "embedding", "embedding": _vector(server, ids, encoding)}
        for index, ids in enumerate(prompts)
    ]
    total = sum(map(len, prompts))
    usage = {
        "prompt_tokens": total,
        "total_tokens": total,
        "completion_tokens": 0,
        "prompt_tokens_details": {"cached_tokens": sum(generation.cached_tokens for generation in generations)},
    }
    body = {
        "id": f"embd-{server.book.digest([token for ids in prompts for token in ids])}",
        "object": "list",
        "model": server.options.model_name,
        "data": data,
        "usage": usage,
    }
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _read_encoding(raw: bytes) -> str:
    asked = decoded(raw, _Encoding)
    if asked.dimensions not in (None, _DIMENSIONS):
        raise refused(f"The emulated model's vectors have {_DIMENSIONS} dimensions.", param="dimensions")
    encoding = asked.encoding_format or "float"
    if encoding not in ("float", "base64"):
        raise refused(f"Encoding format {encoding} does not exist.", param="encoding_format")
    return encoding


def _vector(server: EngineServer, ids: list[int], encoding: str) -> Any:
    """A vector of length 1 made of the prompt's digest: numbers, or the base64 of 32-bit floats."""
    rng = random.Random(server.book.digest(ids))
    raw = [rng.gauss(0, 1) for _ in range(_DIMENSIONS)]
    norm = sum(value * value for value in raw) ** 0.5
    floats = array("f", (value / norm for value in raw))
    return base64.b64encode(floats.tobytes()).decode() if encoding == "base64" else list(floats)
