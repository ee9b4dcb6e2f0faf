"""What the router says of its workers: whether it knows all of them, and how far it has followed their events."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from tests_vllm.process import StartError

_TIMEOUT_S = 60.0
_POLL_S = 0.1


async def streams(session: aiohttp.ClientSession, router_url: str) -> dict[str, dict[str, Any]]:
    """The router's report on each event stream, by the endpoint it listens to, for workers that are ready."""
    async with session.get(f"{router_url}/warmroute/workers") as response:
        response.raise_for_status()
        workers = (await response.json())["workers"]
    return {
        stream["endpoint"]: stream
        for worker in workers
        if worker["status"] == "ready"
        for stream in worker["kv_events"]
    }


async def wait_until_current(session: aiohttp.ClientSession, router_url: str, endpoints: Mapping[str, str]) -> None:
    """Wait until the router follows each of `endpoints` (by worker name) and knows all that was published there.

    `/ready` says that there is a worker to route to, not that what it holds is known yet. Raises StartError.
    """
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
    while waiting := await _behind(session, router_url, endpoints):
        if asyncio.get_running_loop().time() > deadline:
            raise StartError(f"the router does not follow the events of {', '.join(waiting)} after {_TIMEOUT_S:.0f} s")
        await asyncio.sleep(_POLL_S)


async def _behind(session: aiohttp.ClientSession, router_url: str, endpoints: Mapping[str, str]) -> list[str]:
    followed = await streams(session, router_url)
    complete = {endpoint for endpoint, stream in followed.items() if stream["connected"] and stream["complete"]}
    return [name for name, endpoint in endpoints.items() if endpoint not in complete]
