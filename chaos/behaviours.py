"""How clients behave: each function sends one request in its own way and gives what came back, None where it left."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from chaos.asks import Ask
from chaos.options import MAX_BODY_BYTES
from chaos.wire import Connection, Response, chunked, connect, head, read_response

_SMALL_BUFFER = 4096
_STALL_S = (0.2, 2.0)
_CONTINUE_S = 2.0
_PIPELINED = 3
# Of curl, for an HTTP/2 stream that was not closed as it should.
_STREAM_RESET = 92


@dataclass(slots=True)
class Client:
    """One client: its chance, and the connection that it keeps."""

    number: int
    url: str
    rng: random.Random
    kept: Connection | None = None

    async def connection(self) -> Connection:
        """The kept connection, or a new one."""
        connection, self.kept = self.kept, None
        return await connect(self.url) if connection is None else connection

    async def keep(self, connection: Connection, response: Response) -> None:
        """Keep it for the next request, if the answer allows it."""
        connection.served += 1
        if response.closes:
            await connection.close()
        else:
            self.kept = connection

    async def leave(self, connection: Connection) -> None:
        """Go, politely or not."""
        if self.rng.random() < 0.5:
            connection.reset()
        else:
            await connection.close()


Behaviour = Callable[[Client, Ask], Awaitable[Response | None]]


async def plain(client: Client, ask: Ask) -> Response | None:
    """Keep-alive, the whole request in one piece; once more where a kept connection had been closed meanwhile."""
    connection = await client.connection()
    response = await _exchange(connection, head(ask.path, len(ask.body)) + ask.body)
    if response.status == 0 and connection.served:
        connection = await connect(client.url)
        response = await _exchange(connection, head(ask.path, len(ask.body)) + ask.body)
    await client.keep(connection, response)
    return response


async def in_chunks(client: Client, ask: Ask) -> Response | None:
    """A chunked body, in pieces that do not end where the chunks do."""
    connection = await connect(client.url)
    raw = head(ask.path, None) + chunked(ask.body, client.rng.randrange(1, 200))
    await _in_pieces(connection, raw, client.rng.randrange(50, 500))
    response = await read_response(connection.reader)
    await client.keep(connection, response)
    return response


async def byte_by_byte(client: Client, ask: Ask) -> Response | None:
    """One byte at a time, for as long as a body is short; the rest in small pieces."""
    connection = await connect(client.url)
    raw = head(ask.path, len(ask.body)) + ask.body
    await _in_pieces(connection, raw[:300], 1)
    await _in_pieces(connection, raw[300:], 100)
    response = await read_response(connection.reader)
    await connection.close()
    return response


async def expecting_continue(client: Client, ask: Ask) -> Response | None:
    """Waits for 100 before it sends the body."""
    connection = await connect(client.url)
    connection.writer.write(head(ask.path, len(ask.body), "expect: 100-continue"))
    told = b""
    try:
        async with asyncio.timeout(_CONTINUE_S):
            told = await connection.reader.readuntil(b"\r\n\r\n")
    except TimeoutError:
        pass  # a client may send after a while, told or not
    except asyncio.IncompleteReadError:
        return Response(broken="the connection ended instead of 100 Continue")
    connection.writer.write(ask.body)
    response = await read_response(connection.reader)
    if not told.startswith(b"HTTP/1.1 100"):
        response = Response(broken=f"{told[:40]!r} instead of 100 Continue")
    await connection.close()
    return response


async def stalling(client: Client, ask: Ask) -> Response | None:
    """Does not read for a while, with little room for what comes, then reads all."""
    connection = await connect(client.url, receive_buffer=_SMALL_BUFFER)
    connection.writer.write(head(ask.path, len(ask.body)) + ask.body)
    await asyncio.sleep(client.rng.uniform(*_STALL_S))
    response = await read_response(connection.reader)
    await connection.close()
    return response


async def leaving_before_the_answer(client: Client, ask: Ask) -> Response | None:
    """Gone before the first byte, at once or a little later."""
    connection = await client.connection()
    connection.writer.write(head(ask.path, len(ask.body)) + ask.body)
    await asyncio.sleep(client.rng.choice((0.0, 0.001, 0.01, 0.05)))
    await client.leave(connection)
    return None


async def leaving_within_the_answer(client: Client, ask: Ask) -> Response | None:
    """Gone after some pieces of the answer, or at its end where it is shorter."""
    connection = await connect(client.url)
    connection.writer.write(head(ask.path, len(ask.body), "connection: close") + ask.body)
    try:
        for _ in range(client.rng.randrange(1, 12)):
            if not await connection.reader.read(500):
                break
    except ConnectionError:
        pass  # the worker's answer broke off first
    await client.leave(connection)
    return None


async def leaving_within_the_body(client: Client, ask: Ask) -> Response | None:
    """Gone when half of the request is out."""
    connection = await connect(client.url)
    whole = client.rng.random() < 0.5
    raw = head(ask.path, len(ask.body)) + ask.body if whole else head(ask.path, None) + chunked(ask.body, 64)
    connection.writer.write(raw[: client.rng.randrange(1, len(raw))])
    await asyncio.sleep(client.rng.choice((0.0, 0.01, 0.2)))
    await client.leave(connection)
    return None


async def too_large(client: Client, ask: Ask) -> Response | None:
    """A body beyond the limit, declared or in chunks; must be refused."""
    connection = await connect(client.url)
    if client.rng.random() < 0.5:
        connection.writer.write(head(ask.path, 3 * MAX_BODY_BYTES) + b" " * 10_000)
    else:
        connection.writer.write(head(ask.path, None) + chunked(b" " * (MAX_BODY_BYTES + 50_000), 16_384))
    response = await read_response(connection.reader)
    await connection.close()
    return response


async def broken_chunks(client: Client, ask: Ask) -> Response | None:
    """A chunked body that is none; must be refused."""
    connection = await connect(client.url)
    bad = client.rng.choice((b"zz\r\nab\r\n", b"-1\r\n", b"5\r\nabcdefg\r\n", b"ffffffffffffffffff\r\n"))
    connection.writer.write(head(ask.path, None) + b"2\r\n{}\r\n" + bad + b"0\r\n\r\n")
    response = await read_response(connection.reader)
    await connection.close()
    return response


async def no_json(client: Client, ask: Ask) -> Response | None:
    """A body that is no JSON; the engine's 400 comes back."""
    connection = await client.connection()
    body = ask.body[: len(ask.body) // 2]
    response = await _exchange(connection, head(ask.path, len(body)) + body)
    await client.keep(connection, response)
    return response


async def pipelined(client: Client, asks: Sequence[Ask]) -> list[Response]:
    """Several requests at once on one connection; the answers come in their order."""
    connection = await connect(client.url)
    connection.writer.write(b"".join(head(ask.path, len(ask.body)) + ask.body for ask in asks))
    responses = []
    for _ in asks:
        responses.append(await read_response(connection.reader))
        if responses[-1].closes:
            break  # the requests behind are for the client to send again
    await connection.close()
    return responses


async def over_http2(client: Client, ask: Ask) -> Response | None:
    """HTTP/2 with prior knowledge, by curl."""
    words = ["curl", "-sS", "-i", "--http2-prior-knowledge", "--data-binary", "@-", "-H", "expect:"]
    process = await asyncio.create_subprocess_exec(
        *words,
        "-H",
        "content-type: application/json",
        client.url + ask.path,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await process.communicate(ask.body)
    finally:
        if process.returncode is None:
            process.kill()
    return _of_curl(out, process.returncode or 0, err)


async def offers_http2(url: str) -> bool:
    """Whether the router speaks HTTP/2 on its traffic port."""
    words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_version}", "--http2-prior-knowledge", "-m", "5"]
    try:
        process = await asyncio.create_subprocess_exec(
            *words, f"{url}/health", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except FileNotFoundError:
        return False  # no curl here
    out, _ = await process.communicate()
    return process.returncode == 0 and out.strip() == b"2"


# How often each comes, among a hundred or so.
ANSWERED: dict[Behaviour, int] = {
    plain: 40,
    in_chunks: 6,
    byte_by_byte: 3,
    expecting_continue: 5,
    stalling: 6,
    over_http2: 4,
}
LEFT: dict[Behaviour, int] = {
    leaving_before_the_answer: 8,
    leaving_within_the_answer: 8,
    leaving_within_the_body: 6,
}
# What must be refused, and with which statuses.
REFUSED: dict[Behaviour, tuple[int, tuple[int, ...]]] = {
    too_large: (3, (413,)),
    broken_chunks: (3, (400,)),
    no_json: (3, (400, 422, 429, 500, 502, 503, 504)),
}
PIPELINED_WEIGHT = 5
PIPELINED = _PIPELINED


async def _exchange(connection: Connection, raw: bytes) -> Response:
    try:
        connection.writer.write(raw)
        await connection.writer.drain()
    except OSError as error:
        return Response(broken=repr(error))
    return await read_response(connection.reader)


async def _in_pieces(connection: Connection, raw: bytes, size: int) -> None:
    for at in range(0, len(raw), size):
        connection.writer.write(raw[at : at + size])
        await asyncio.sleep(0)


def _of_curl(out: bytes, code: int, err: bytes) -> Response:
    """What curl wrote, as an answer; its exit code says whether it was whole."""
    told = err.decode("utf-8", "replace").strip()
    response = Response(whole=code == 0, broken=told, aborted=code == _STREAM_RESET)
    rest = out
    while rest.startswith(b"HTTP/"):
        block, _, rest = rest.partition(b"\r\n\r\n")
        lines = block.decode("latin-1").split("\r\n")
        response.status = int(lines[0].split(" ")[1])
        response.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
    response.body = rest
    return response
