"""Workers that a test plays byte by byte, and before them a whole router that must have let go of all at the end."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from field_failures.wire import LAST_CHUNK, RESETS, Client, Message, chunked, read_body, read_head
from gateway.routed import until
from warmroute.admission import FailoverOptions
from warmroute.gateway.access_options import AccessOptions
from warmroute.gateway.configuration import Configuration
from warmroute.gateway.options import ServeConfig
from warmroute.gateway.relay import Outcome, RelayOptions, RelayServer
from warmroute.gateway.serve import Gateway, running_gateway
from warmroute.worker import WorkerSpec, WorkerStatus

MODEL = "m"
BODY = json.dumps({"model": MODEL, "prompt": [1, 2, 3]})
STREAMED = json.dumps({"model": MODEL, "prompt": [1, 2, 3], "stream": True})
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = "/v1/last"
_LONGEST_HEAD = 1 << 20
_PAGES = {
    "/health": "",
    "/v1/models": json.dumps({"data": [{"id": MODEL, "max_model_len": 4096}]}),
    "/metrics": 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1\nvllm:num_requests_running 0\n',
}


def answer(body: bytes | str = '{"choices": []}', status: str = "200 OK", *lines: str) -> bytes:
    """An answer with a length."""
    data = body.encode() if isinstance(body, str) else body
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(data)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def stream(*events: str) -> bytes:
    """A whole answer with each event in a chunk of its own."""
    return STREAM_HEAD + chunked(*(f"data: {event}\n\n" for event in events)) + LAST_CHUNK


@dataclass(slots=True)
class Asked:
    """A request that a worker got, and the connection on which it may answer."""

    message: Message
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_gone(self) -> None:
        """Wait until the router closes the connection."""
        try:
            assert await self.reader.read(1) == b"", "nothing more is asked before this is answered"
        except ConnectionError:
            return

    def close(self) -> None:
        """FIN, behind what has been sent."""
        self.writer.close()

    def reset(self) -> None:
        """RST."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
        self.writer.transport.abort()


Script = Callable[[Asked], Awaitable[None]]


async def answers_well(asked: Asked) -> None:
    await asked.send(answer())


@dataclass
class LyingWorker:
    """Tells the router the truth of itself, and does to clients' requests what `script` does.

    `connections` counts those on which clients' requests came; `gone` the requests whose connection the router closed.
    Not `patient`: it does not wait for the bodies of clients' requests.
    """

    script: Script = answers_well
    patient: bool = True
    asked: list[Message] = field(default_factory=list)
    connections: int = 0
    gone: int = 0
    faults: list[BaseException] = field(default_factory=list)
    url: str = ""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def see_it_go(self, asked: Asked) -> None:
        """Wait, as an engine that computes, until the router has closed the connection."""
        await asked.until_gone()
        self.gone += 1

    @asynccontextmanager
    async def serve(self, host: str = "127.0.0.1") -> AsyncIterator[str]:
        """Listens; gives the URL."""
        server = await asyncio.start_server(self._connected, host, 0, limit=_LONGEST_HEAD)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{server.sockets[0].getsockname()[1]}"
        try:
            yield self.url
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            assert not self.faults, self.faults

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except ConnectionError:
            pass  # what a script writes after the router has gone
        except asyncio.CancelledError:
            pass  # the end of the test; the protocol would log it
        except Exception as fault:
            self.faults.append(fault)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients = False
        while not writer.is_closing() and (message := await read_head(reader)) is not None:
            if self.patient:
                await read_body(reader, message, until_closed=False)
            if message.header("x-forwarded-for") is None:
                page = _PAGES.get(message.target)
                writer.write(answer() if page is None else answer(page))
                continue
            self.connections += not clients
            clients = True
            self.asked.append(message)
            await self.script(Asked(message, reader, writer))


@dataclass
class Before:
    """A router before workers; `outcomes` are those of clients' requests, in the order in which they ended."""

    gateway: Gateway
    outcomes: list[Outcome]

    async def client(self) -> Client:
        return await Client.of(self.gateway.url)

    async def ask(self, data: bytes | str) -> Message:
        """The answer to one request on a connection of its own."""
        client = await self.client()
        await client.send(data)
        message = await client.answer()
        await client.close()
        return message

    async def send(self, data: bytes | str) -> list[Message]:
        """All answers to these bytes and to a request for `LAST` behind them, after which the router closes."""
        client = await self.client()
        sent = data.encode("latin-1") if isinstance(data, str) else data
        await client.send(sent + f"GET {LAST} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n".encode())
        messages = await client.answers()
        await client.close()
        return messages

    async def ended(self, count: int) -> list[Outcome]:
        """The outcomes, once there are so many."""
        await until(lambda: len(self.outcomes) >= count)
        assert len(self.outcomes) == count
        return self.outcomes


@asynccontextmanager
async def before(
    *workers: LyingWorker,
    relay: RelayOptions | None = None,
    access: AccessOptions | None = None,
    failover: FailoverOptions | None = None,
    **options: Any,
) -> AsyncIterator[Before]:
    """A router on free ports before these workers, all of them ready; at the end it holds nothing any more."""
    config = ServeConfig(port=0, probe_interval_s=0.2, grace_s=0.1, seed=1, state_file="", **options)
    specs = tuple(WorkerSpec(worker.url) for worker in workers)
    told = Configuration(
        config,
        relay or RelayOptions(),
        specs=specs,
        access=access or AccessOptions(),
        failover=failover or FailoverOptions(),
    )
    async with running_gateway(told) as gateway:
        outcomes = _hear(gateway.relay)
        await until(lambda: all(worker.status is WorkerStatus.READY for worker in gateway.router.table))
        yield Before(gateway, outcomes)
        await until(lambda: held(gateway) == 0)
        gateway.router.table.check_integrity()
        assert (gateway.relay.counts.unanswered, gateway.relay.counts.callback_errors) == (0, 0)


def _hear(relay: RelayServer) -> list[Outcome]:
    """A list that grows with each outcome, beside those who hear of it already."""
    outcomes, others = list[Outcome](), relay.on_outcome

    def both(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if others is not None:
            others(outcome)

    relay.on_outcome = both
    return outcomes


def held(gateway: Gateway) -> int:
    """What is counted as being under way, in the relay and on each worker, in requests and in tokens."""
    load = sum(worker.requests + worker.queued_tokens for worker in gateway.router.table)
    return load + gateway.relay.in_flight()
