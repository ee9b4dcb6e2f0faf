"""One request that no worker can take costs nobody else anything."""

import asyncio
import collections
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from e2e.processes import router, until_ready

_REFUSED = 'warmroute_refusals_total{reason="workers-exhausted"}'


@asynccontextmanager
async def touchy_worker() -> AsyncIterator[str]:
    """Healthy and quick, but it closes the connection on whoever asks for poison, and looks take it a while."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_body = {"/health": (200, b""), "/v1/models": (200, b'{"data": [{"id": "m"}]}'), "/v1/food": (200, b"{}")}
        answers = collections.defaultdict(lambda: (404, b""), with_body)
        while head := await reader.readline():
            path = head.split()[1].decode()
            while (await reader.readline()).strip():
                pass
            if path == "/v1/poison":
                break
            if path == "/health":
                await asyncio.sleep(0.3)
            status, body = answers[path]
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()

    open_connections: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.append((asyncio.create_task(serve(reader, writer)), writer))

    try:
        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for _, writer in open_connections:
            writer.close()
        await asyncio.gather(*(task for task, _ in open_connections), return_exceptions=True)


async def test_a_request_that_every_worker_breaks_off_leaves_the_workers_to_the_others() -> None:
    async with (
        touchy_worker() as first,
        touchy_worker() as second,
        touchy_worker() as third,
        router([first, second, third]) as gate,
        aiohttp.ClientSession() as session,
    ):
        await until_ready(gate.admin_url, 3)
        async with session.get(f"{gate.url}/v1/poison") as response:
            assert (response.status, response.headers["x-warmroute-refused"]) == (502, "workers-exhausted")
        async with session.get(f"{gate.url}/v1/food") as response:
            assert response.status == 200
        async with session.get(f"{gate.admin_url}/metrics") as response:
            assert f"{_REFUSED} 1.0" in await response.text()
