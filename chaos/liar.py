"""A worker that stands before a true engine and passes its answers on, or lies about them."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from chaos.judgement import LIE_HEADER
from chaos.lies import BEFORE, GOES_SILENT, INSTEAD, NO_PAGE, STAYS_OPEN, SURPLUS, Lie
from chaos.wire import Connection, connect

_PIECE = 2048
# A silent worker is silent for longer than anybody's patience here.
_SILENCE_S = 60.0


@dataclass(slots=True)
class Liar:
    """`lie` is what it does to the next request; probes (GET) are always answered as the engine does.

    It has no metrics: those of the engine, before which all liars stand, would make each look as busy as all together.
    """

    engine_url: str
    rng: random.Random
    url: str = ""
    lie: Lie = Lie.HONEST
    told: Counter[Lie] = field(default_factory=Counter)
    _open: set["asyncio.Task[None]"] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the router, until either side ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        connection = Connection(reader, writer)
        try:
            while await self._answer(connection):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the router has gone, or the engine behind: the end of this connection
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, connection: Connection) -> bool:
        """Take one request and answer it; False where the connection ends with it."""
        request_head = await connection.reader.readuntil(b"\r\n\r\n")
        request = request_head + await _body(connection.reader, request_head)
        if request.startswith(b"GET /metrics "):
            return await _say(connection, NO_PAGE)
        if request.startswith(b"GET"):
            return await self._pass_on(connection, request, Lie.HONEST)
        lie = self.lie
        self.told[lie] += 1
        if lie is Lie.RESET:
            connection.reset()
            return False
        if lie in INSTEAD:
            return await _say_instead(connection, lie)
        return await self._pass_on(connection, request, lie)

    async def _pass_on(self, connection: Connection, request: bytes, lie: Lie) -> bool:
        engine = await connect(self.engine_url)
        try:
            engine.writer.write(_once(request))
            head = await engine.reader.readuntil(b"\r\n\r\n")
            if lie in (Lie.LONG_LENGTH, Lie.SHORT_LENGTH):
                return await self._misdeclare(connection, engine, head, lie)
            connection.writer.write(BEFORE.get(lie, b"") + _told(head, lie))
            return await self._carry(connection, engine, lie)
        finally:
            await engine.close()

    async def _carry(self, connection: Connection, engine: Connection, lie: Lie) -> bool:
        left = self.rng.randrange(1, 6000) if lie in (Lie.HALF_ANSWER, Lie.HALF_RESET) else None
        # What is too much goes out together with the answer's end. Had it come later, nobody could tell it from the
        # answer to the next request, which may be on its way by then.
        behind = b""
        while piece := await engine.reader.read(_PIECE):
            if left is not None and len(piece) >= left:
                return await _break_off(connection, piece[: left - 1], lie)
            left = None if left is None else left - len(piece)
            if lie is Lie.SURPLUS:
                piece, behind = behind, piece
            connection.writer.write(piece)
            await connection.writer.drain()
        if lie is Lie.SURPLUS:
            await _say(connection, behind + SURPLUS)
        return lie is not Lie.LAST

    async def _misdeclare(self, connection: Connection, engine: Connection, head: bytes, lie: Lie) -> bool:
        body = await _whole_body(engine.reader, head)
        length = max(0, len(body) + (100 if lie is Lie.LONG_LENGTH else -self.rng.randrange(1, len(body) + 1)))
        lines = [line for line in _told(head, lie).split(b"\r\n") if line and not _is_framing(line)]
        connection.writer.write(b"\r\n".join([*lines, b"content-length: %d" % length, b"", body]))
        await connection.writer.drain()
        return lie is not Lie.LONG_LENGTH

    async def end(self) -> None:
        """End the connections that are open."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


@asynccontextmanager
async def liar(engine_url: str, rng: random.Random) -> AsyncIterator[Liar]:
    """A liar that listens on a free port."""
    made = Liar(engine_url, rng)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 22)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await made.end()


async def _say(connection: Connection, answer: bytes) -> bool:
    connection.writer.write(answer)
    await connection.writer.drain()
    return True


async def _say_instead(connection: Connection, lie: Lie) -> bool:
    await _say(connection, INSTEAD[lie])
    if lie in GOES_SILENT:
        try:
            async with asyncio.timeout(_SILENCE_S):
                await connection.reader.read(1)  # the router's patience ends first
        except TimeoutError:
            pass
    return lie in STAYS_OPEN


async def _break_off(connection: Connection, piece: bytes, lie: Lie) -> bool:
    connection.writer.write(piece)
    await connection.writer.drain()
    if lie is Lie.HALF_RESET:
        connection.reset()
    return False


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """A message's body as it is on the wire."""
    lines = head.lower().split(b"\r\n")
    for line in lines:
        if line.startswith(b"content-length:"):
            return await reader.readexactly(int(line.split(b":")[1]))
    if not any(line.startswith(b"transfer-encoding:") for line in lines):
        return b""
    body = b""
    while not body.endswith(b"0\r\n\r\n"):
        body += await reader.readuntil(b"\r\n")
    return body


async def _whole_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """An answer's body without its chunks; the engine closes after it."""
    raw = await reader.read(-1)
    if b"chunked" not in head.lower():
        return raw
    body = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        body, raw = body + raw[: int(size, 16)], raw[int(size, 16) + 2 :]
    return body


def _once(request: bytes) -> bytes:
    """The request, asking the engine to close after its answer, so that the answer's end is seen."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"connection: close", b"", body])


def _told(head: bytes, lie: Lie) -> bytes:
    """The engine's head, without its wish to close."""
    lines = [line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")]
    if lie is not Lie.HONEST:
        lines.append(f"{LIE_HEADER}: {lie}".encode())
    return b"\r\n".join([*lines, b"", b""])


def _is_framing(line: bytes) -> bool:
    return line.lower().startswith((b"content-length:", b"transfer-encoding:"))
