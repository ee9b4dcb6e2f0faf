"""HTTP/1.1 over raw sockets: requests as bytes, answers as they really came, broken ones included."""

import asyncio
import socket
import struct
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_LINE = 1 << 20
_LINGER_OFF = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Response:
    """What came back. `whole`: it ended where HTTP says it must; `status` is 0 where not even a head came."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    whole: bool = False
    interim: list[int] = field(default_factory=list)
    broken: str = ""
    aborted: bool = False
    """An HTTP/2 stream was reset: a failure that is seen as one, also where the reset overtakes the head."""

    @property
    def closes(self) -> bool:
        return not self.whole or self.headers.get("connection", "").lower() == "close"


@dataclass(slots=True)
class Connection:
    """One connection of one client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    served: int = 0

    def reset(self) -> None:
        """End it with RST, as a process that is killed does."""
        sock = self.writer.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)
        self.writer.transport.abort()

    async def close(self) -> None:
        """End it with FIN; that it has been broken already is no matter."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return


async def connect(url: str, *, receive_buffer: int | None = None) -> Connection:
    """A connection to the host and port of `url`; a small `receive_buffer` makes a slow reader felt."""
    parts = urlsplit(url)
    sock = socket.socket()
    sock.setblocking(False)
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    try:
        await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
    except BaseException:
        sock.close()
        raise
    limit = _LINE if receive_buffer is None else receive_buffer
    return Connection(*await asyncio.open_connection(sock=sock, limit=limit))


def head(path: str, length: int | None, *lines: str, method: str = "POST") -> bytes:
    """A request's head; `length` None: a chunked body follows."""
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    words = [f"{method} {path} HTTP/1.1", "host: router", "content-type: application/json", framing, *lines]
    return ("\r\n".join(words) + "\r\n\r\n").encode()


def chunked(body: bytes, size: int) -> bytes:
    """`body` in chunks of `size` bytes, with the last chunk."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def read_response(reader: asyncio.StreamReader, *, method: str = "POST") -> Response:
    """The next answer on a connection. Never raises for what the other side does: that is in the answer."""
    response = Response()
    try:
        await _read_head(reader, response)
        while 100 <= response.status < 200:
            response.interim.append(response.status)
            response.headers = {}
            await _read_head(reader, response)
        if method != "HEAD":
            await _read_body(reader, response)
        response.whole = True
    except asyncio.IncompleteReadError as error:
        response.broken = "the connection ended too early"
        response.body += error.partial if response.status else b""
    except (OSError, ValueError, asyncio.LimitOverrunError) as error:
        response.broken = repr(error)
    return response


async def _read_head(reader: asyncio.StreamReader, response: Response) -> None:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    for line in lines[1:-2]:
        name, _, value = line.partition(":")
        response.headers[name.lower()] = value.strip()
    response.status = int(lines[0].split(" ", 2)[1])


async def _read_body(reader: asyncio.StreamReader, response: Response) -> None:
    if response.status in (204, 304):
        return
    if "chunked" in response.headers.get("transfer-encoding", ""):
        await _read_chunks(reader, response)
    elif "content-length" in response.headers:
        response.body = await reader.readexactly(int(response.headers["content-length"]))
    else:
        response.body = await reader.read(-1)


async def _read_chunks(reader: asyncio.StreamReader, response: Response) -> None:
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        response.body += await reader.readexactly(size)
        if await reader.readexactly(2) != b"\r\n":
            raise ValueError("a chunk does not end with a line break")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
