"""Many at once, too few descriptors, another event loop."""

import asyncio
import json
import resource
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator

import aiohttp
import pytest
import uvloop
from aiohttp import web

from relay.served import answer_json, serving, until, working
from warmroute.gateway.relay import Arrival, RelayServer

STREAMS = 1200
# Client, relay on both sides, worker: all in this process.
_DESCRIPTORS_PER_STREAM = 4

# A relay in a process that may open 60 descriptors; it answers by itself and tells its port first.
_LIMITED = """
import asyncio, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
from warmroute.gateway.relay import RelayServer

async def main():
    server = RelayServer()
    async def answer(arrival):
        await server.respond(arrival.request_id, 200, [], b"here")
    print((await server.start("127.0.0.1", 0, answer))[1], flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture
def enough_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = STREAMS * _DESCRIPTORS_PER_STREAM + 500
    if hard < needed:
        pytest.skip(f"{needed} descriptors are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("enough_descriptors")
async def test_many_streams_at_once_and_a_probe_among_them() -> None:
    opened, end = 0, asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        nonlocal opened
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        opened += 1
        await end.wait()
        await response.write(b"data: 2\n\n")
        return response

    async def decide(server: RelayServer, arrival: Arrival) -> None:
        if arrival.path == "/probe":
            await server.respond(arrival.request_id, 200, [], b"alive")
        else:
            await server.forward(arrival.request_id, worker)

    async def read(client: aiohttp.ClientSession, url: str) -> bytes:
        async with client.get(url) as response:
            return await response.read()

    # In debug mode the loop, not the relay, is what takes the time here.
    asyncio.get_running_loop().set_debug(False)
    async with (
        working(stream) as worker,
        serving(decide) as served,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
    ):
        reading = [asyncio.create_task(read(client, served.url)) for _ in range(STREAMS)]
        await until(lambda: opened == STREAMS, within_s=30)
        assert served.server.in_flight() == STREAMS
        assert await asyncio.wait_for(read(client, f"{served.url}/probe"), 5) == b"alive"
        end.set()
        assert set(await asyncio.gather(*reading)) == {b"data: 1\n\ndata: 2\n\n"}
        await until(lambda: len(served.outcomes) == STREAMS + 1)
        assert {outcome.end for outcome in served.outcomes} == {"completed"}


async def test_out_of_descriptors_the_relay_waits_and_goes_on() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _LIMITED, stdout=PIPE)
    assert process.stdout is not None
    try:
        port = int(await asyncio.wait_for(process.stdout.readline(), 20))
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        await asyncio.sleep(0.2)
        for client in clients:
            client.close()
        async with (
            asyncio.timeout(10),
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/") as response,
        ):
            assert await response.read() == b"here"
    finally:
        process.kill()
        await process.wait()


def test_it_runs_on_uvloop() -> None:
    async def decide(server: RelayServer, arrival: Arrival) -> None:
        await server.forward(arrival.request_id, arrival.header("x-to") or "")

    async def main() -> None:
        async with working(answer_json) as worker, serving(decide) as served:
            for _ in range(20):
                async with served.client.post(served.url, data=b"u", headers={"x-to": worker}) as response:
                    assert json.loads(await response.read())["echo"] == "u"
            await until(lambda: len(served.outcomes) == 20)

    uvloop.run(main())
