"""What a router asks an engine about itself."""

from typing import Any

import msgspec
from aiohttp import web

from warmroute.emulator.answer_format.dialect import CREATED
from warmroute.emulator.engine_server import SERVER

_EMULATED_VERSION = "0.33.0+emulated"


async def health(_request: web.Request) -> web.Response:
    """200 without a body, as vLLM while its engine lives."""
    return web.Response()


async def version(_request: web.Request) -> web.Response:
    """The vLLM release whose interfaces are emulated."""
    return _json({"version": _EMULATED_VERSION})


async def models(request: web.Request) -> web.Response:
    """The one model that is served."""
    server = request.app[SERVER]
    model = {
        "id": server.options.model_name,
        "object": "model",
        "created": CREATED,
        "owned_by": "vllm",
        "root": server.options.model,
        "parent": None,
        "max_model_len": server.context_tokens,
        "permission": [],
    }
    return _json({"object": "list", "data": [model]})


async def metrics(request: web.Request) -> web.Response:
    """vLLM's metrics in Prometheus' text format."""
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=request.app[SERVER].metrics.text(), headers=headers)


async def reset_prefix_cache(request: web.Request) -> web.Response:
    """Drop the prefix cache of every rank; `success` is false where requests hold blocks."""
    dropped = [engine.reset_prefix_cache() for engine in request.app[SERVER].engines]
    return _json({"success": all(dropped)})


async def kv_event_sources(request: web.Request) -> web.Response:
    """Where the KV events of each data parallel rank come from; none without KV events."""
    return _json(request.app[SERVER].kv_event_sources())


async def kv_cache_events(request: web.Request) -> web.Response:
    """The KV events since the last question, each handed out once, as `trtllm-serve` does."""
    events = [event for buffer in request.app[SERVER].buffers for event in buffer.drain()]
    return _json(events)


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
