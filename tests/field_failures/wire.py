"""HTTP/1.1 as bytes: messages read strictly, so that a test sees what was sent and not what a library made of it."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass, field

RESETS = struct.pack("ii", 1, 0)
"""The value of SO_LINGER by which a socket that is closed sends RST."""

_PATIENCE_S = 20.0
_LONGEST_HEAD = 1 << 20
_HEADERS_END = b"\r\n\r\n"


@dataclass(slots=True)
class Message:
    """A request or an answer. `pieces` are the chunks of a chunked body; `whole`: the body came to its end."""

    start: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    pieces: list[bytes] = field(default_factory=list)
    whole: bool = True

    @property
    def status(self) -> int:
        return int(self.start.split(" ")[1])

    @property
    def target(self) -> str:
        return self.start.split(" ")[1]

    def all(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given == name]

    def header(self, name: str) -> str | None:
        """The value of a header that is there once or not at all."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None


async def read_head(reader: asyncio.StreamReader) -> Message | None:
    """The next head; None where the connection ended instead."""
    try:
        head = await reader.readuntil(_HEADERS_END)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    start, *lines = head.removesuffix(_HEADERS_END).decode("latin-1").split("\r\n")
    named = (line.partition(":") for line in lines)
    return Message(start, [(name.lower(), value.strip()) for name, _, value in named])


async def read_body(reader: asyncio.StreamReader, message: Message, *, until_closed: bool) -> None:
    """The body that `message` announces; without a length it goes to the end of the connection, or is none."""
    try:
        if message.header("transfer-encoding") == "chunked":
            assert message.header("content-length") is None, "two lengths"
            while size := int((await reader.readline()).strip() or b"?", 16):
                message.pieces.append(await reader.readexactly(size))
                assert await reader.readexactly(2) == b"\r\n"
            assert await reader.readline() == b"\r\n"
        elif (length := message.header("content-length")) is not None:
            message.pieces.append(await reader.readexactly(int(length)))
        elif until_closed:
            message.pieces.append(await reader.read())
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        message.whole = False
    message.body = b"".join(message.pieces)


@dataclass(slots=True)
class Client:
    """One connection to a router, on which a test writes what it likes.

    It reads by itself, so that what has come before a reset is not lost: a router may answer and close while this one
    still writes. Not `reading`: it takes nothing.
    """

    socket: socket.socket
    reader: asyncio.StreamReader
    _pump: asyncio.Task[None] | None = None

    @classmethod
    async def of(cls, url: str, *, reading: bool = True) -> "Client":
        host, _, port = url.removeprefix("http://").rpartition(":")
        host = host.strip("[]")
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (host, int(port)))
        client = cls(made, asyncio.StreamReader(_LONGEST_HEAD))
        client._pump = asyncio.create_task(client._read()) if reading else None
        return client

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while came := await loop.sock_recv(self.socket, 65_536):
                self.reader.feed_data(came)
        except ConnectionError:
            pass  # to the reader an end as any other
        self.reader.feed_eof()

    async def send(self, data: bytes | str) -> None:
        """Send as much as the router takes before it closes."""
        sent = data.encode("latin-1") if isinstance(data, str) else data
        with contextlib.suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self.socket, sent)

    async def head(self) -> Message:
        """The head of the next answer."""
        message = await asyncio.wait_for(read_head(self.reader), _PATIENCE_S)
        assert message is not None, "the connection ended without an answer"
        return message

    async def answer(self, *, bodiless: bool = False) -> Message:
        """The next answer, read to its end; `bodiless`: to HEAD."""
        message = await self.head()
        if not bodiless:
            await self._body(message)
        return message

    async def answers(self) -> list[Message]:
        """All answers until the router closes the connection."""
        seen: list[Message] = []
        while (message := await asyncio.wait_for(read_head(self.reader), _PATIENCE_S)) is not None:
            await self._body(message)
            seen.append(message)
        return seen

    async def _body(self, message: Message) -> None:
        if message.status >= 200 and message.status not in (204, 304):
            await asyncio.wait_for(read_body(self.reader, message, until_closed=True), _PATIENCE_S)

    async def is_closed(self) -> bool:
        """Whether the router closes the connection without a further byte."""
        return await asyncio.wait_for(self.reader.read(1), _PATIENCE_S) == b""

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    async def leave(self) -> None:
        """Go away by a reset, as a process that is killed with bytes unread."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
        await self.close()

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        self.socket.close()


def request(
    target: str = "/v1/completions", body: bytes | str = "{}", *lines: str, method: str = "POST", host: str = "r"
) -> bytes:
    """A request with a length."""
    data = body.encode() if isinstance(body, str) else body
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(data)}", *lines]
    return "\r\n".join(head).encode("latin-1") + _HEADERS_END + data


def chunked(*pieces: bytes | str) -> bytes:
    """Pieces as chunks, without the last one."""
    datas = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return b"".join(b"%x\r\n%s\r\n" % (len(data), data) for data in datas if data)


LAST_CHUNK = b"0\r\n\r\n"
